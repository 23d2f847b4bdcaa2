// Times and memory, computed by hand.
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dtc::timetables {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

std::vector<double> beginsOf(const Simulated &simulated, size_t rank) {
  std::vector<double> begins;
  for (const Interval &interval : simulated.entries[rank])
    begins.push_back(interval.begin);
  return begins;
}

// Two stages with other times each, and a transfer of 0.5:
//   rank 0  0F0 [0,1]  0F1 [1,2]                      0B0 [7.5,9.5] 0B1 [12.5,14.5]
//   rank 1             1F0 [1.5,3.5] 1B0 [3.5,7] 1F1 [7,9] 1B1 [9,12.5]... sent: 0B1 begins at 13
TEST(Simulate, FollowsTransfersAndStages) {
  Timetable timetable = readCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "mine");
  Costs costs = equalCosts(2, 1, 1, 1, 0.5);
  costs.stages[1].forward = 2;
  costs.stages[1].backward = 3.5;
  Simulated simulated = simulate(timetable, costs);
  EXPECT_THAT(beginsOf(simulated, 0), ElementsAre(0, 1, 7.5, 13));
  EXPECT_THAT(beginsOf(simulated, 1), ElementsAre(1.5, 3.5, 7, 9));
  EXPECT_DOUBLE_EQ(simulated.seconds, 15);
  EXPECT_THAT(simulated.work, ElementsAre(6, 11));
  EXPECT_THAT(simulated.idle, ElementsAre(9, 4));
  EXPECT_DOUBLE_EQ(simulated.meanWork(), 8.5);
  EXPECT_DOUBLE_EQ(simulated.bubbleOverhead(), 6.5 / 8.5);
  EXPECT_DOUBLE_EQ(simulated.bubbleFraction(), 6.5 / 15);
  EXPECT_DOUBLE_EQ(stepSeconds(timetable, costs), 15);
}

// Nothing is sent at the tip of a V, whose two stages are on one rank.
TEST(Simulate, SendsNothingWithinARank) {
  Timetable timetable = generate("naive", {1, 3, 1});
  EXPECT_DOUBLE_EQ(simulate(timetable, equalCosts(3, 1, 1, 1, 100)).seconds, 9);
  Timetable v = generate("zbv", {2, 2, 1});
  double apart = simulate(v, equalCosts(4, 1, 1, 1, 0)).seconds;
  EXPECT_DOUBLE_EQ(simulate(v, equalCosts(4, 1, 1, 1, 10)).seconds - apart, 10 * 4) << "down, up and back";
}

TEST(Simulate, LetsPairsBeginAndEndTogether) {
  Timetable timetable = readCsv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n", "mine");
  Costs costs = equalCosts(2);
  costs.coScheduled = 0.75;
  Simulated simulated = simulate(timetable, costs);
  // 1B0 ends at 4, so the pair lasts from 4 to 4 + 0.75 * 3; 0F1 is not there earlier.
  EXPECT_THAT(beginsOf(simulated, 0), ElementsAre(0, 4, 4, 9.25));
  EXPECT_DOUBLE_EQ(simulated.entries[0][1].end, 6.25);
  EXPECT_DOUBLE_EQ(simulated.entries[0][2].end, 6.25);
  EXPECT_THAT(beginsOf(simulated, 1), ElementsAre(1, 2, 6.25, 7.25));
  EXPECT_DOUBLE_EQ(simulated.work[0], 1 + 2.25 + 2);
}

TEST(Simulate, AddsUpWhatStashesTake) {
  Costs costs = equalCosts(1);
  costs.stages[0].stash = 10;
  costs.stages[0].stashForWeight = 4;
  auto peak = [&](std::string_view csv) { return peakMemory(readCsv(csv, "mine"), costs).front(); };
  EXPECT_DOUBLE_EQ(peak("0F0,0B0,0F1,0B1\n"), 10);
  EXPECT_DOUBLE_EQ(peak("0F0,0F1,0B0,0B1\n"), 20);
  EXPECT_DOUBLE_EQ(peak("0F0,0I0,0F1,0I1,0W0,0W1\n"), 14) << "a part of the first, and the second";
  EXPECT_DOUBLE_EQ(peak("0F0,0I0,0W0,0F1,0I1,0W1\n"), 10);
  EXPECT_DOUBLE_EQ(peak("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"), 20);
}

// While an input gradient runs, what it keeps for the weight gradients is there, and what it reads is not free yet.
TEST(Simulate, AddsUpWhatInputGradientsKeep) {
  Costs costs = equalCosts(1);
  costs.stages[0].stash = 10;
  costs.stages[0].stashForWeight = 4;
  costs.stages[0].gradientStash = 8;
  auto peak = [&](std::string_view csv) { return peakMemory(readCsv(csv, "mine"), costs).front(); };
  EXPECT_DOUBLE_EQ(peak("0F0,0F1,0B0,0B1\n"), 20) << "a whole backward pass keeps nothing";
  EXPECT_DOUBLE_EQ(peak("0F0,0I0,0W0,0F1,0I1,0W1\n"), 18);
  EXPECT_DOUBLE_EQ(peak("0F0,0F1,0I0,0W0,0I1,0W1\n"), 28);
  EXPECT_DOUBLE_EQ(peak("0F0,0I0,0F1,0I1,0W0,0W1\n"), 12 + 18) << "what stays of the first, and all of the second";
}

TEST(Simulate, SaysThatRanksWaitForEver) {
  EXPECT_TRUE(std::isinf(stepSeconds(readCsv("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", "mine"), equalCosts(2))));
}

// A rank that has finished its part of a step begins the next.
TEST(SimulateSteps, WaitForNoBarrier) {
  Timetable timetable = generate("zb-h2", {4, 1, 8});
  EXPECT_DOUBLE_EQ(simulate(timetable, equalCosts(4)).seconds, 27);
  SteadyState first = simulateSteps(timetable, equalCosts(4), 1), later = simulateSteps(timetable, equalCosts(4), 6);
  EXPECT_DOUBLE_EQ(first.seconds, 27);
  EXPECT_DOUBLE_EQ(later.seconds, 24);
  EXPECT_THAT(later.rankBubble, testing::Each(DoubleEq(0)));
  Costs slow = equalCosts(4);
  slow.stages[2].forward = 2; // the others wait for rank 2
  SteadyState uneven = simulateSteps(timetable, slow, 12);
  EXPECT_DOUBLE_EQ(uneven.seconds, 32);
  EXPECT_THAT(uneven.rankBubble, ElementsAre(8, 8, 0, 8));
}

// In zb-h2 and zbv rank r of p is p - 1 - r passes ahead of the last, from 2 p - 1 micro-batches on.
TEST(BegunBeforeEnd, IsWhatTheLastRankIsBehind) {
  for (const char *name : {"zb-h2", "zbv"})
    for (int32_t ranks : {2, 3, 4, 8})
      for (int32_t microBatches : {2 * ranks - 1, 2 * ranks, 4 * ranks}) {
        Timetable timetable = generate(name, {ranks, name[2] == 'v' ? 2 : 1, microBatches});
        std::vector<size_t> begun = begunBeforeEnd(timetable, equalCosts(timetable.stages()), 3 * ranks);
        for (int32_t rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(begun[static_cast<size_t>(rank)], static_cast<size_t>(ranks - 1 - rank))
              << name << " " << microBatches;
      }
  EXPECT_THAT(begunBeforeEnd(generate("zb-h2", {4, 1, 4}), equalCosts(4), 12), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(begunBeforeEnd(generate("zb-h1", {4, 1, 8}), equalCosts(4), 12), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(begunBeforeEnd(generate("1f1b", {4, 1, 8}), equalCosts(4), 12), ElementsAre(0, 0, 0, 0));
}

} // namespace
} // namespace dtc::timetables
