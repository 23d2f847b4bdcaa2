// What a person sees while training runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dtc {

/// On a terminal one line that rewrites itself; elsewhere a plain line now and then, so that logs stay readable.
class Progress {
public:
  /// `begin`: steps done before this run; `end`: steps in all. Writes to stdout.
  Progress(int64_t begin, int64_t end, bool terminal);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// After a step. `tokensPerSecond` over all ranks.
  void step(int64_t done, double loss, double tokensPerSecond);
  /// A line of its own that stays.
  void note(const std::string &line);
  /// Makes room for what another writes to the terminal.
  void clear();

private:
  int64_t begin, end;
  bool terminal, barShown = false;
  std::chrono::steady_clock::time_point started, lastLine;
};

/// "1:02:03" or "2:03".
std::string formatDuration(double seconds);
/// "step 3/10  loss 5.4321  1234 tokens/s  ETA 0:07".
std::string formatStep(int64_t done, int64_t end, double loss, double tokensPerSecond, double secondsLeft);
/// A bar of done/end before the text, within `width` columns; the text alone, cut, where there is no room.
std::string formatBar(const std::string &text, int64_t done, int64_t end, int width);

} // namespace dtc
