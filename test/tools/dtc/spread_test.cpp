#include "tools/dtc/forecast/Spread.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

TEST(Spread, IsThatOfTheInnerHalf) {
  EXPECT_DOUBLE_EQ(spreadOf({2, 2, 2}), 0);
  EXPECT_DOUBLE_EQ(spreadOf({2}), 0);
  EXPECT_NEAR(spreadOf({1.8, 2, 2.2, 2.5, 2}), 0.1, 1e-12) << "distances 0, 0, 0.1, 0.1, 0.25";
  EXPECT_DOUBLE_EQ(spreadOf({2, 2, 2, 2, 200}), 0) << "one step that was disturbed";
}

// One disturbed program is not a loaded machine: kernel measurements are medians.
TEST(Spread, AnIdleMachineIsNotWarnedOf) {
  EXPECT_EQ(loadWarning({0.01, 0.02, 0.03}), "");
  EXPECT_EQ(loadWarning({0.01, 0.02, 0.9}), "");
}

TEST(Spread, ALoadedMachineIsWarnedOfWithTheFigures) {
  std::string warning = loadWarning({0.01, 0.12, 0.4});
  EXPECT_NE(warning.find("differ by more than 12% from its median, and by 40% of the worst one"), std::string::npos)
      << warning;
  EXPECT_NE(warning.find("calibrate again when it is idle"), std::string::npos);
}

} // namespace
} // namespace dtc
