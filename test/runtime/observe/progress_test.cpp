#include "runtime/observe/progress.h"

#include "runtime/observe/peak_flops.h"

#include <gmock/gmock.h>

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
  std::string text = formatStep(5, 10, 2.5, 1234, 60);
  EXPECT_EQ(text, "step 5/10  loss 2.5000  1234 tokens/s  ETA 1:00");
  std::string bar = formatBar(text, 5, 10, 100);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '#'), 20);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '.'), 20 + 1);
  for (int width : {1, 20, 60, 70, 80})
    EXPECT_LT(formatBar(text, 5, 10, width).size(), static_cast<size_t>(width));
}

TEST(Progress, RewritesOneLineOnATerminalOnly) {
  auto shown = [](bool terminal) {
    testing::internal::CaptureStdout();
    {
      Progress progress(0, 3, terminal);
      for (int step = 1; step <= 3; ++step)
        progress.step(step, 1, 1);
      progress.note("done");
    }
    return testing::internal::GetCapturedStdout();
  };
  std::string terminal = shown(true), plain = shown(false);
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\n'), 1);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 4);
  EXPECT_THAT(plain, Not(HasSubstr("\r")));
}

// No CPU that this runs on is slower than 1 or faster than 1000 GFLOP/s a core.
TEST(PeakFlops, IsAPlausibleFigure) {
  double peak = measurePeakFlops();
  EXPECT_GT(peak, 1e9);
  EXPECT_LT(peak, 1e12);
}

} // namespace
