#include "runtime/observe/stragglers.h"

#include <gmock/gmock.h>

#include <cmath>

namespace {

using namespace dtc;
using testing::HasSubstr;

TEST(ComputeTimes, MedianIsBetweenTheMiddleTwo) {
  ComputeTimes odd(std::vector<double>{5, 1, 3}), even(std::vector<double>{4, 1, 3, 8});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(odd.slowest, 0);
  EXPECT_EQ(even.median, 3.5);
  EXPECT_EQ(even.slowest, 3);
}

// Mean 4, deviations 2, 2, 0, 4: the root of their mean square is the root of 6.
TEST(ComputeTimes, VariationIsOfAllRanks) {
  EXPECT_NEAR(ComputeTimes(std::vector<double>{2, 2, 4, 8}).variation, std::sqrt(6.0) / 4, 1e-15);
  EXPECT_EQ(ComputeTimes(std::vector<double>{7, 7}).variation, 0);
  EXPECT_EQ(ComputeTimes(std::vector<double>{0, 0}).variation, 0);
}

// Rank 3 has more work than the others, and no other rank has as much.
TEST(Stragglers, AreSlowerThanThoseWithEqualWork) {
  std::vector<int> work = {0, 0, 0, 1};
  std::vector<Straggler> slow = findStragglers(std::vector<double>{1, 1.25, 1, 9}, work);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_EQ(slow[0].seconds, 1.25);
  EXPECT_EQ(slow[0].median, 1);
  EXPECT_TRUE(findStragglers(std::vector<double>{1, 1.15, 1, 9}, work).empty());
}

// Steps of a small program vary with the other work of the system.
TEST(Stragglers, AreSlowerByMoreThanNoise) {
  std::vector<int> work = {0, 0, 0};
  EXPECT_TRUE(findStragglers(std::vector<double>{1e-4, 1e-3, 1e-4}, work).empty());
  EXPECT_EQ(findStragglers(std::vector<double>{1e-4, 1.2e-3, 1e-4}, work).size(), 1u);
}

class Watch : public testing::Test {
protected:
  std::string steps(int count, const std::vector<double> &seconds) {
    std::string all;
    for (int i = 0; i < count; ++i)
      all += watch.step(seconds);
    return all;
  }
  StragglerWatch watch{{0, 0, 0, 0, 0}};
};

TEST_F(Watch, ARankIsToldOfOnceWhenItHasBeenSlowForLong) {
  EXPECT_EQ(steps(StragglerSteps - 1, {1, 1, 2, 1, 1}), "");
  std::string told = steps(1, {1, 1, 2, 1, 1});
  EXPECT_THAT(told, HasSubstr("rank 2 computes 2 s a step, 2.00 times as long as the median"));
  EXPECT_THAT(told, HasSubstr("for 20 steps in a row"));
  EXPECT_EQ(steps(3 * StragglerSteps, {1, 1, 2, 1, 1}), "");
  // Fast again, and slow again.
  EXPECT_EQ(steps(1, {1, 1, 1, 1, 1}), "");
  EXPECT_EQ(steps(StragglerSteps - 1, {1, 1, 2, 1, 1}), "");
  EXPECT_NE(steps(1, {1, 1, 2, 1, 1}), "");
}

TEST_F(Watch, ASlowStepNowAndThenIsNone) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(steps(StragglerSteps - 1, {1, 1, 2, 1, 1}), "");
    EXPECT_EQ(steps(1, {1, 1, 1.1, 1, 1}), "");
  }
}

// Each of two is slow in each step, whoever is slower.
TEST_F(Watch, SeveralAreToldOfTogether) {
  std::string told;
  for (int i = 0; i < StragglerSteps; ++i)
    told += watch.step(i % 2 ? std::vector<double>{1, 3, 2, 1, 1} : std::vector<double>{1, 2, 3, 1, 1});
  EXPECT_THAT(told, HasSubstr("rank 1 computes"));
  EXPECT_THAT(told, HasSubstr("; rank 2 computes"));
}

} // namespace
