// Bounds that relatives give, by hand.
#include "timing/plans/relatives.h"

#include <gtest/gtest.h>

#include <tuple>

namespace dtc::plans {
namespace {

// gpipe on two ranks: both forward passes, 0 to 2 and 1 to 3; then the second rank's halves from 3 on, in the order of
// micro-batches, I0, W0, I1, W1; the first rank's follow one behind each: from 4 to 8. Whole passes would end at 9.
TEST(Relatives, AStepIsThatOfItsTimetableWithoutCommunication) {
  Candidate candidate;
  candidate.mesh = {{"pp", 2}};
  candidate.microBatches = 2;
  candidate.timetable = "gpipe";
  Evaluated evaluated;
  evaluated.candidate = candidate;
  evaluated.passes = {{1, 1, 1}, {1, 1, 1}};
  evaluated.busy = 6;
  Relatives relatives;
  EXPECT_FALSE(relatives.areKnown());
  EXPECT_EQ(relatives.boundOf(candidate, 0), 0);
  relatives.add(evaluated);
  EXPECT_TRUE(relatives.areKnown());
  EXPECT_NEAR(relatives.boundOf(candidate, 0), 8, 1e-6);
  candidate.timetable = "naive"; // each micro-batch by itself: 2 forward and 2 input gradients, then a weight gradient
  EXPECT_NEAR(relatives.boundOf(candidate, 0), 10, 1e-6);
  evaluated.busy = 20; // with what is recomputed
  relatives.add(evaluated);
  EXPECT_NEAR(relatives.boundOf(candidate, 0), 20, 1e-6);
  EXPECT_NEAR(relatives.boundOf(candidate, 3), 23, 1e-6);
}

// 1F1B with two micro-batches: F0 F1 B0 B1 on the first rank, F0 B0 F1 B1 on the second. If the first rank takes twice
// as long, it never waits: 2 * 6. If the second one does, it has its first input at 1, its halves end at 5 and 7, its
// second forward pass at 9, and its second halves at 11 and 13; the first rank's last halves end at 12 and 13.
TEST(Relatives, EachStageTakesItsOwnTime) {
  Candidate candidate;
  candidate.mesh = {{"pp", 2}};
  candidate.microBatches = 2;
  Evaluated evaluated;
  evaluated.candidate = candidate;
  for (auto [first, second, expected] : {std::tuple(2.0, 1.0, 12.0), {1.0, 2.0, 13.0}}) {
    evaluated.passes = {{first, first, first}, {second, second, second}};
    Relatives relatives;
    relatives.add(evaluated);
    EXPECT_NEAR(relatives.boundOf(candidate, 0), expected, 1e-6);
  }
}

// Nothing is said about a timetable with other stages, nor by what is not known.
TEST(Relatives, SayNothingAboutOtherStages) {
  Candidate candidate;
  candidate.mesh = {{"pp", 2}};
  candidate.microBatches = 4;
  Evaluated evaluated;
  evaluated.candidate = candidate;
  Relatives relatives;
  relatives.add(evaluated);
  EXPECT_FALSE(relatives.areKnown()) << "no passes";
  evaluated.passes = {{1, 1, 1}, {1, 1, 1}};
  relatives.add(evaluated);
  candidate.timetable = "zbv"; // four stages
  EXPECT_EQ(relatives.boundOf(candidate, 0), 0);
}

// DualPipeV schedules entries together; programs do them one after the other. Two ranks have four stages of three
// seconds each for four micro-batches: 24 seconds on each rank, and more where they wait.
TEST(Relatives, CoScheduledEntriesAreDoneInTurn) {
  Candidate candidate;
  candidate.mesh = {{"pp", 2}};
  candidate.microBatches = 4;
  candidate.timetable = "dualpipev";
  Evaluated evaluated;
  evaluated.candidate = candidate;
  evaluated.passes.assign(4, {1, 1, 1});
  Relatives relatives;
  relatives.add(evaluated);
  EXPECT_GE(relatives.boundOf(candidate, 0), 24 * (1 - 1e-6));
  EXPECT_LT(relatives.boundOf(candidate, 0), 36);
}

// What counts of kernels does not depend on how state is split.
TEST(Relatives, BoundThoseWhoseStateIsSplitOtherwise) {
  Candidate candidate;
  candidate.mesh = {{"dp", 4}};
  candidate.state = "zero2";
  Evaluated evaluated;
  evaluated.candidate = candidate;
  evaluated.passes = {{1, 1, 1}};
  evaluated.busy = 3;
  Relatives relatives;
  relatives.add(evaluated);
  for (const char *state : {"ddp", "zero1", "zero2", "zero3", "hsdp:2"}) {
    candidate.state = state;
    EXPECT_NEAR(relatives.boundOf(candidate, 0), 3, 1e-6) << state;
  }
}

} // namespace
} // namespace dtc::plans
