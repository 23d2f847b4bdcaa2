// The progress display while training runs.
#pragma once

#include "runtime/observe/metrics.h"
#include "runtime/support/not_copied.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace dtc {

/// On a terminal one line that rewrites itself; elsewhere a plain line now and then, with the time before it, so that
/// logs stay readable.
class Progress : NotCopied {
public:
  /// `begin`: steps done before this run; `end`: steps in all. Writes to stdout.
  Progress(int64_t begin, int64_t end, bool terminal);
  ~Progress();

  /// Shows a step; `metrics` are those of one of `ranks` ranks.
  void step(const StepMetrics &metrics, int ranks);
  /// Prints a separate line that stays.
  void note(const std::string &line);
  /// Clears the line, so that others can write to the terminal.
  void clear();

private:
  int64_t begin, end;
  bool terminal, barShown = false;
  std::chrono::steady_clock::time_point started, lastLine;
};

/// "1:02:03" or "2:03".
std::string formatDuration(double seconds);
/// "step 3/10  loss 5.4321  lr 0.0003  norm 1.23  1234 tokens/s  MFU 41.5 %  1.2 GiB  ETA 0:07": the learning rate, the
/// gradients' norm, tokens of all ranks, the share of what the device can do and the memory of one rank. What does not
/// fit into `width` columns is left out, least important first; loss and ETA always stay.
std::string formatStep(const StepMetrics &metrics, int ranks, int64_t end, double secondsLeft, size_t width);
/// A bar of done/end before the text, within `width` columns; only the text, truncated, if there is no room.
std::string formatBar(const std::string &text, int64_t done, int64_t end, int width);

} // namespace dtc
