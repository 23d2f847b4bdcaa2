// Each schedule against its formula, written out for a few steps by hand.
#include "runtime/program/train/schedule.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dtc {
namespace {

abi::Training makeTraining(const char *schedule) {
  abi::Training training;
  training.set_schedule(schedule);
  training.set_learning_rate(8);
  training.set_minimum_learning_rate(2);
  training.set_warmup_steps(4);
  training.set_steps(12);
  return training;
}

// The first step moves already, and the last of the warm-up has the full rate.
TEST(ScheduleTest, WarmsUpLinearlyUnderEverySchedule) {
  for (const char *schedule : {"constant", "linear", "cosine"}) {
    abi::Training training = makeTraining(schedule);
    for (int step = 0; step < 4; ++step)
      EXPECT_DOUBLE_EQ(learningRate(training, step), 2.0 * (step + 1)) << schedule;
  }
}

TEST(ScheduleTest, ConstantStays) {
  abi::Training training = makeTraining("constant");
  for (int step : {4, 8, 11, 12, 100})
    EXPECT_EQ(learningRate(training, step), 8);
}

TEST(ScheduleTest, LinearFallsByEqualStepsTowardsTheMinimum) {
  abi::Training training = makeTraining("linear");
  const double expected[] = {8, 7.25, 6.5, 5.75, 5, 4.25, 3.5, 2.75, 2};
  for (int step = 4; step <= 12; ++step)
    EXPECT_DOUBLE_EQ(learningRate(training, step), expected[step - 4]) << step;
}

// A half cosine: full at first, halfway in the middle, the minimum at the end, falling all the while.
TEST(ScheduleTest, CosineFallsToTheMinimumOnce) {
  abi::Training training = makeTraining("cosine");
  EXPECT_DOUBLE_EQ(learningRate(training, 4), 8);
  EXPECT_DOUBLE_EQ(learningRate(training, 6), 5 + 3 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(learningRate(training, 8), 5);
  EXPECT_DOUBLE_EQ(learningRate(training, 10), 5 - 3 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(learningRate(training, 12), 2);
  for (int step = 4; step < 12; ++step)
    EXPECT_GT(learningRate(training, step), learningRate(training, step + 1)) << step;
}

// --steps may end a run that was planned to be longer, or extend it: the rate stays where the schedule ended.
TEST(ScheduleTest, StaysAtTheMinimumBeyondTheEnd) {
  for (const char *schedule : {"linear", "cosine"})
    EXPECT_DOUBLE_EQ(learningRate(makeTraining(schedule), 40), 2) << schedule;
}

TEST(ScheduleTest, AWarmUpThatFillsTheRunOrOutlastsIt) {
  for (const char *schedule : {"constant", "linear", "cosine"}) {
    abi::Training training = makeTraining(schedule);
    training.set_warmup_steps(12);
    EXPECT_DOUBLE_EQ(learningRate(training, 11), 8) << schedule;
    training.set_warmup_steps(24);
    EXPECT_DOUBLE_EQ(learningRate(training, 11), 4) << schedule;
    training.set_warmup_steps(0);
    EXPECT_DOUBLE_EQ(learningRate(training, 0), 8) << schedule;
  }
}

} // namespace
} // namespace dtc
