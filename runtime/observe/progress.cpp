#include "runtime/observe/progress.h"

#include "runtime/support/escape.h"
#include "runtime/support/time_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace dtc {

using Clock = std::chrono::steady_clock;

std::string formatDuration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e8))
    return "--:--";
  int64_t whole = std::llround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string formatStep(const StepMetrics &metrics, int ranks, int64_t end, double secondsLeft, size_t width) {
  struct Field {
    std::string text;
    int rank; ///< the highest goes first; 0 stays
  };
  std::vector<Field> fields = {{fmt::format("step {}/{}  loss {:.4f}", metrics.step, end, metrics.loss), 0},
                               {fmt::format("  lr {:.3g}", metrics.learningRate), 3}};
  if (metrics.gradientNorm)
    fields.push_back({fmt::format("  norm {:.3g}", *metrics.gradientNorm), 2});
  fields.push_back({fmt::format("  {:.0f} tokens/s", metrics.tokensPerSecond * ranks), 1});
  if (metrics.utilisation)
    fields.push_back({fmt::format("  MFU {:.1f} %", *metrics.utilisation), 4});
  fields.push_back({fmt::format("  {:.3g} GiB", metrics.peakMemoryGiB), 5});
  fields.push_back({"  ETA " + formatDuration(secondsLeft), 0});
  for (int least = 5;; --least) {
    std::string text;
    for (const Field &field : fields)
      text += field.rank <= least ? field.text : "";
    if (least == 0 || text.size() < width)
      return text;
  }
}

std::string formatBar(const std::string &text, int64_t done, int64_t end, int width) {
  int room = std::min(width - static_cast<int>(text.size()) - 4, 40);
  if (room < 10)
    return text.substr(0, static_cast<size_t>(std::max(width - 1, 0)));
  int filled = end > 0 ? static_cast<int>(room * done / end) : room;
  return fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(room - filled, '.'), text);
}

static int terminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The output may have no reader or its disk may be full. That must not end a run, so this throws nothing and drops
/// what cannot be written.
static void write(const std::string &text) {
  if (std::fputs(text.c_str(), stdout) != EOF && std::fflush(stdout) == 0)
    return;
  __fpurge(stdout);
  std::clearerr(stdout);
}

Progress::Progress(int64_t begin, int64_t end, bool terminal)
    : begin(begin), end(end), terminal(terminal), started(Clock::now()) {}

Progress::~Progress() {
  if (barShown)
    write("\n");
}

void Progress::step(const StepMetrics &metrics, int ranks) {
  auto now = Clock::now();
  int64_t done = metrics.step;
  double elapsed = std::chrono::duration<double>(now - started).count();
  double left = elapsed / static_cast<double>(done - begin) * static_cast<double>(end - done);
  int width = terminal ? terminalWidth() : std::numeric_limits<int>::max();
  std::string text = formatStep(metrics, ranks, end, left, static_cast<size_t>(width));
  // Without a terminal: every step if there are few, else one line every ten seconds.
  bool due = done == begin + 1 || done == end || end - begin <= 20 || now - lastLine >= std::chrono::seconds(10);
  if (terminal) {
    write(fmt::format("\r\033[K{}", formatBar(text, done, end, width)));
    barShown = true;
  } else if (due) {
    write(timeStamp(stdout) + text + "\n");
    lastLine = now;
  }
}

void Progress::note(const std::string &line) {
  clear();
  write((terminal ? "" : timeStamp(stdout)) + escaped(line) + "\n");
}

void Progress::clear() {
  if (barShown)
    write("\r\033[K");
  barShown = false;
}

} // namespace dtc
