#include "runtime/observe/progress.h"

#include "runtime/observe/peak_flops.h"
#include "runtime/support/time_text.h"

#include <chrono>
#include <cstdio>
#include <gmock/gmock.h>
#include <sstream>
#include <thread>

using namespace dtc;
using testing::HasSubstr;
using testing::Not;

namespace {

TEST(Progress, FormatsDurations) {
  EXPECT_EQ(formatDuration(7.4), "0:07");
  EXPECT_EQ(formatDuration(3723), "1:02:03");
  EXPECT_EQ(formatDuration(1e300), "--:--");
  EXPECT_EQ(formatDuration(0.0 / 0.0), "--:--");
}

TEST(Progress, TheBarFillsWithTheStepsAndFitsTheTerminal) {
  std::string text = formatStep({.step = 5, .loss = 2.5, .tokensPerSecond = 617}, 2, 10, 60, 60);
  EXPECT_EQ(text, "step 5/10  loss 2.5000  lr 0  1234 tokens/s  ETA 1:00");
  std::string bar = formatBar(text, 5, 10, 100);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '#'), 20);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '.'), 20 + 1);
  for (int width : {1, 20, 60, 70, 80})
    EXPECT_LT(formatBar(text, 5, 10, width).size(), static_cast<size_t>(width));
}

// Of two ranks that do 617 tokens per second each. What does not fit is dropped, in this order; what is unknown was
// never there.
// there.
TEST(Progress, TellsWhatFitsTheTerminal) {
  StepMetrics line{.step = 5,
                   .loss = 2.5,
                   .gradientNorm = 1.2345,
                   .learningRate = 3e-4,
                   .tokensPerSecond = 617,
                   .utilisation = 41.53,
                   .peakMemoryGiB = 1.2};
  auto text = [&](size_t width) { return formatStep(line, 2, 10, 60, width); };
  std::string all = "step 5/10  loss 2.5000  lr 0.0003  norm 1.23  1234 tokens/s  MFU 41.5 %  1.2 GiB  ETA 1:00";
  EXPECT_EQ(text(1000), all);
  EXPECT_EQ(text(all.size() + 1), all);
  EXPECT_EQ(text(all.size()), "step 5/10  loss 2.5000  lr 0.0003  norm 1.23  1234 tokens/s  MFU 41.5 %  ETA 1:00");
  EXPECT_EQ(text(80), "step 5/10  loss 2.5000  lr 0.0003  norm 1.23  1234 tokens/s  ETA 1:00");
  EXPECT_EQ(text(60), "step 5/10  loss 2.5000  norm 1.23  1234 tokens/s  ETA 1:00");
  EXPECT_EQ(text(50), "step 5/10  loss 2.5000  1234 tokens/s  ETA 1:00");
  EXPECT_EQ(text(10), "step 5/10  loss 2.5000  ETA 1:00");
}

// The captured output is a file.
TEST(Progress, LinesOfALogHaveTheTime) {
  testing::internal::CaptureStdout();
  {
    Progress progress(0, 3, /*terminal=*/false);
    progress.note("begin");
    progress.step({.step = 1, .loss = 1}, 1);
  }
  std::istringstream lines(testing::internal::GetCapturedStdout());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_THAT(line,
                testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z (begin|step 1/3 .*)"));
  EXPECT_EQ(count, 2);
}

TEST(UtcText, IsUtcInIso8601) {
  using namespace std::chrono;
  system_clock::time_point time = sys_days{2024y / February / 29} + 23h + 5min + 9s + 7ms;
  EXPECT_EQ(utcText(time), "2024-02-29T23:05:09Z");
  EXPECT_EQ(utcText(time, /*thousandths=*/true), "2024-02-29T23:05:09.007Z");
}

TEST(Progress, RewritesOneLineOnATerminalOnly) {
  auto shown = [](bool terminal) {
    testing::internal::CaptureStdout();
    {
      Progress progress(0, 3, terminal);
      for (int step = 1; step <= 3; ++step)
        progress.step({.step = step, .loss = 1}, 1);
      progress.note("done");
    }
    return testing::internal::GetCapturedStdout();
  };
  std::string terminal = shown(true), plain = shown(false);
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\n'), 1);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 4);
  EXPECT_THAT(plain, Not(HasSubstr("\r")));
}

/// Seconds that the line's "ETA 1:02" says.
int shownEta(const std::string &line) {
  size_t at = line.find("ETA ");
  int minutes = -1, seconds = 0;
  if (at == std::string::npos || std::sscanf(line.c_str() + at, "ETA %d:%d", &minutes, &seconds) != 2)
    return -1;
  return 60 * minutes + seconds;
}

// Half a second for step 1001 predicts 40 times as much for the 40 after it; the thousand before were another run's.
TEST(Progress, AResumedRunCountsItsOwnStepsOnly) {
  testing::internal::CaptureStdout();
  {
    Progress progress(1000, 1041, /*terminal=*/false);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    progress.step({.step = 1001, .loss = 1}, 1);
  }
  std::string line = testing::internal::GetCapturedStdout();
  EXPECT_THAT(line, HasSubstr("step 1001/1041"));
  EXPECT_GE(shownEta(line), 20) << line;
  EXPECT_LT(shownEta(line), 600) << line;
}

// A share is one core per thread. Where there are more ranks than cores, each counts a whole core.
TEST(PeakFlops, IsSharedByRanks) {
  EXPECT_EQ(peakShare(10, /*threads=*/1, /*cores=*/8, /*ranks=*/1), 10);
  EXPECT_EQ(peakShare(10, 8, 8, 1), 80);
  EXPECT_EQ(peakShare(10, 8, 8, 2), 40);
  EXPECT_EQ(peakShare(10, 2, 8, 4), 20);
  EXPECT_EQ(peakShare(10, 4, 2, 8), 10);
}

// No CPU that this runs on is slower than 1 or faster than 1000 GFLOP/s a core.
TEST(PeakFlops, IsAPlausibleFigure) {
  double peak = measurePeakFlops();
  EXPECT_GT(peak, 1e9);
  EXPECT_LT(peak, 1e12);
}

} // namespace
