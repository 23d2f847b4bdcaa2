// The named timetables against the papers' formulas and figures.
#include "runtime/support/error.h"
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dtc::timetables {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// F = I = W = 1.
Simulated simulateEqual(const Timetable &timetable) { return simulate(timetable, equalCosts(timetable.stages())); }

int64_t highestPeak(const Timetable &timetable) { return std::ranges::max(peakStashes(timetable)); }

std::string rowOf(const Timetable &timetable, size_t rank) {
  Timetable one = timetable;
  one.ranks = {timetable.ranks[rank]};
  std::string text = writeCsv(one);
  return text.substr(0, text.size() - 1);
}

// Every timetable of every shape works, without a limit on what is searched for here.
TEST(NamedTimetables, AreValidAndAddWeightGradientsInOrder) {
  for (const Named &named : allNamed())
    for (int32_t ranks = 1; ranks <= 7; ++ranks)
      for (int32_t perRank : {1, 2, 3})
        for (int32_t micro = 1; micro <= 17; ++micro) {
          Shape shape{ranks, perRank, micro};
          if (!findMisfit(named, shape).empty())
            continue;
          Timetable timetable = generate(named, shape);
          EXPECT_EQ(findFault(timetable), "") << named.name << " " << ranks << " " << perRank << " " << micro;
          EXPECT_EQ(findWeightsOutOfOrder(timetable), "") << named.name << " " << ranks << " " << micro;
        }
}

// The bubbles as overheads, exactly: whole numbers of passes.
TEST(NamedTimetables, HaveTheBubblesOfThePapers) {
  for (int32_t p = 1; p <= 8; ++p)
    for (int32_t m = 1; m <= 20; ++m) {
      auto overhead = [&](std::string_view name, int32_t perRank) {
        return simulateEqual(generate(name, {p, perRank, m})).bubbleOverhead();
      };
      double fill = p - 1;
      EXPECT_DOUBLE_EQ(overhead("naive", 1), fill);
      EXPECT_DOUBLE_EQ(overhead("gpipe", 1), fill / m);
      EXPECT_DOUBLE_EQ(overhead("1f1b", 1), fill / m);
      auto fraction = [&](std::string_view name, int32_t perRank) {
        return simulateEqual(generate(name, {p, perRank, m})).bubbleFraction();
      };
      EXPECT_DOUBLE_EQ(fraction("naive", 1), fill / p);
      EXPECT_DOUBLE_EQ(fraction("gpipe", 1), fill / (m + p - 1));
      EXPECT_DOUBLE_EQ(fraction("1f1b", 1), fill / (m + p - 1));
      if (m >= p) {
        EXPECT_DOUBLE_EQ(overhead("zb-h1", 1), fill / (3 * m));
        EXPECT_DOUBLE_EQ(fraction("zb-h1", 1), fill / (3 * m + p - 1));
      }
      if (m % p == 0) {
        for (int32_t v : {2, 3, 4}) {
          EXPECT_DOUBLE_EQ(overhead("interleaved", v), fill / (v * m)) << p << " " << m;
          EXPECT_DOUBLE_EQ(fraction("interleaved", v), fill / (v * m + p - 1)) << p << " " << m;
        }
      }
    }
}

// With B = 2F, which is I = F and W = F, and with other shares of W, the bubble of 1f1b stays that of F + B.
TEST(NamedTimetables, HaveThePapersBubblesForOtherTimes) {
  for (int32_t p : {2, 4, 8})
    for (int32_t m : {8, 16}) {
      Costs costs = equalCosts(p, 1, 0.75, 0.5);
      EXPECT_DOUBLE_EQ(simulate(generate("1f1b", {p, 1, m}), costs).bubbleOverhead(), (p - 1.0) / m);
      EXPECT_DOUBLE_EQ(simulate(generate("gpipe", {p, 1, m}), costs).bubbleOverhead(), (p - 1.0) / m);
    }
}

// Without a barrier no rank waits, from 2p - 1 micro-batches on, in the memory that the papers state.
TEST(NamedTimetables, OfZeroBubbleHaveNoneFromStepToStep) {
  for (int32_t p = 1; p <= 8; ++p)
    for (int32_t m = 2 * p - 1; m <= 2 * p + 6; ++m)
      for (auto [name, perRank] : {std::pair{"zb-h2", 1}, std::pair{"zbv", 2}}) {
        Timetable timetable = generate(name, {p, perRank, m});
        SteadyState steady = simulateSteps(timetable, equalCosts(timetable.stages()), p + 4);
        EXPECT_THAT(steady.rankBubble, Each(0.0)) << name << " " << p << " " << m;
        EXPECT_DOUBLE_EQ(steady.seconds, 3.0 * perRank * m);
        EXPECT_LE(highestPeak(timetable), perRank == 1 ? 2 * p - 1 : 2 * p) << name;
      }
  Timetable synchronous = generate("1f1b", {4, 1, 8});
  EXPECT_DOUBLE_EQ(simulateSteps(synchronous, equalCosts(4), 9).seconds, 33) << "its ranks wait for the last one";
}

// Speed-ups over 1f1b: with p = 4 and m = 8, 1.22 for zb-h1 in one step and 1.375 for zbv from step to step; with p = 2
// 1.08 and 1.125.
TEST(NamedTimetables, AreAsMuchFasterAsThePapersSay) {
  auto step = [](std::string_view name, Shape shape, double pass) {
    return simulate(generate(name, shape), equalCosts(shape.ranks * shape.stagesPerRank, pass, pass, pass)).seconds;
  };
  auto steady = [](Shape shape) {
    return simulateSteps(generate("zbv", shape), equalCosts(2 * shape.ranks, 0.5, 0.5, 0.5), 12).seconds;
  };
  EXPECT_NEAR(step("1f1b", {4, 1, 8}, 1) / step("zb-h1", {4, 1, 8}, 1), 33.0 / 27, 1e-12);
  EXPECT_NEAR(step("1f1b", {4, 1, 8}, 1) / steady({4, 2, 8}), 33.0 / 24, 1e-12);
  EXPECT_NEAR(step("1f1b", {4, 1, 8}, 1) / step("zbv", {4, 2, 8}, 0.5), 33 / 25.5, 1e-12);
  EXPECT_NEAR(step("1f1b", {2, 1, 8}, 1) / step("zb-h1", {2, 1, 8}, 1), 27.0 / 25, 1e-12);
  EXPECT_NEAR(step("1f1b", {2, 1, 8}, 1) / steady({2, 2, 8}), 27.0 / 24, 1e-12);
}

// On each rank. In a V with fewer than 2p - 1 micro-batches, all m are under way in a rank's first stage, and as many
// in its second as there are ranks before it, and one.
TEST(NamedTimetables, KeepTheStashesOfTheirFormulas) {
  for (int32_t p = 1; p <= 8; ++p)
    for (int32_t m = 1; m <= 24; ++m) {
      for (int32_t rank = 0; rank < p; ++rank) {
        auto at = static_cast<size_t>(rank);
        EXPECT_EQ(peakStashes(generate("naive", {p, 2, m}))[at], 2);
        EXPECT_EQ(peakStashes(generate("gpipe", {p, 2, m}))[at], 2 * m);
        EXPECT_EQ(peakStashes(generate("1f1b", {p, 1, m}))[at], std::min(m, p - rank));
        EXPECT_EQ(peakStashes(generate("zb-h1", {p, 1, m}))[at], std::min(m, p));
        EXPECT_EQ(peakStashes(generate("zb-h2", {p, 1, m}))[at], std::min(m, 2 * p - 1));
        if (m % p == 0) {
          for (int32_t v : {2, 3, 4})
            EXPECT_EQ(peakStashes(generate("interleaved", {p, v, m}))[at],
                      std::min(v * m, (v - 1) * p + 2 * (p - rank) - 1));
        }
        EXPECT_EQ(peakStashes(generate("zbv", {p, 2, m}))[at], std::min({2 * m, 2 * p, m + rank + 1}));
      }
      if (m >= 2 * p) {
        EXPECT_THAT(peakStashes(generate("dualpipev", {p, 2, m})), Each(2 * p + 1));
      }
    }
}

// In units of a stage of a pipeline without the V, which is two of its stages. With as many micro-batches as fill the
// pipeline each rank of v-half holds exactly that. So does each of v-min, but for p = 2, 5, 8, ...: there every third
// rank's building block is short enough for one less.
TEST(NamedTimetables, WithLessMemoryHoldWhatThePaperStates) {
  for (int32_t p = 2; p <= 16; ++p)
    for (int32_t m : {p, 2 * p - 1, 2 * p, 4 * p}) {
      std::vector<int64_t> half = peakStashes(generate("v-half", {p, 2, m}));
      std::vector<int64_t> least = peakStashes(generate("v-min", {p, 2, m}));
      int64_t mostOfHalf = 2 * ((p + 2) / 2), mostOfLeast = 2 * ((p + 4) / 3);
      for (int32_t rank = 0; rank < p; ++rank) {
        auto at = static_cast<size_t>(rank);
        EXPECT_LE(half[at], mostOfHalf) << p << " " << m;
        EXPECT_LE(least[at], mostOfLeast) << p << " " << m;
        if (m >= 2 * p - 1) {
          EXPECT_EQ(half[at], mostOfHalf) << p << " " << m;
          EXPECT_EQ(least[at], p % 3 == 2 && rank % 3 == 0 ? mostOfLeast - 2 : mostOfLeast) << p << " " << m;
        }
      }
    }
}

TEST(NamedTimetables, AreTheOrdersOfThePapersFigures) {
  EXPECT_EQ(rowOf(generate("naive", {2, 1, 2}), 0), "0F0,0B0,0F1,0B1");
  EXPECT_EQ(rowOf(generate("gpipe", {4, 1, 3}), 0), "0F0,0F1,0F2,0B0,0B1,0B2");
  EXPECT_EQ(rowOf(generate("gpipe", {4, 1, 3}), 3), "3F0,3F1,3F2,3B0,3B1,3B2");
  EXPECT_EQ(rowOf(generate("1f1b", {4, 1, 6}), 0), "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0B3,0B4,0B5");
  EXPECT_EQ(rowOf(generate("1f1b", {4, 1, 6}), 2), "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2B5");
  EXPECT_EQ(rowOf(generate("1f1b", {4, 1, 6}), 3), "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5");
  EXPECT_EQ(rowOf(generate("1f1b", {4, 1, 2}), 0), "0F0,0F1,0B0,0B1") << "fewer micro-batches than stages";
  EXPECT_EQ(rowOf(generate("interleaved", {2, 2, 4}), 1), "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,"
                                                          "1B3");
  EXPECT_EQ(rowOf(generate("zb-h1", {2, 1, 3}), 0), "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2");
  EXPECT_EQ(rowOf(generate("zb-h1", {2, 1, 3}), 1), "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2");
  EXPECT_EQ(rowOf(generate("zb-h2", {2, 1, 3}), 0), "0F0,0F1,0F2,0I0,0W0,0I1,0W1,0I2,0W2");
  EXPECT_EQ(rowOf(generate("zbv", {2, 2, 3}), 1), "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,"
                                                  "1W2");
}

// Facts of dualpipev_4rank_10mb.csv, which PyTorch's tests have: entry by entry.
TEST(NamedTimetables, OfDualPipeVAreThoseOfPyTorch) {
  Timetable timetable = generate("dualpipev", {4, 2, 10});
  EXPECT_EQ(rowOf(timetable, 0),
            "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,(0F7;7B3)OVERLAP_F_B,"
            "(7F4;0B0)OVERLAP_F_B,(0F8;7B4)OVERLAP_F_B,(7F5;0B1)OVERLAP_F_B,(0F9;7B5)OVERLAP_F_B,"
            "(7F6;0B2)OVERLAP_F_B,7B6,(7F7;0B3)OVERLAP_F_B,7B7,(7F8;0B4)OVERLAP_F_B,7B8,(7F9;0B5)OVERLAP_F_B,7B9,0I6,"
            "0W6,0I7,0W7,0I8,0W8,0I9,0W9");
  EXPECT_EQ(rowOf(timetable, 1),
            "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,6I1,6W1,6F3,(1F6;6B2)OVERLAP_F_B,(6F4;1B0)OVERLAP_F_B,"
            "(1F7;6B3)OVERLAP_F_B,(6F5;1B1)OVERLAP_F_B,(1F8;6B4)OVERLAP_F_B,(6F6;1B2)OVERLAP_F_B,"
            "(1F9;6B5)OVERLAP_F_B,(6F7;1B3)OVERLAP_F_B,6B6,(6F8;1B4)OVERLAP_F_B,6B7,(6F9;1B5)OVERLAP_F_B,6B8,1B6,6I9,"
            "1I7,6W9,1I8,1W7,1I9,1W8,1W9");
  EXPECT_EQ(rowOf(timetable, 2),
            "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,(2F5;5B1)OVERLAP_F_B,(5F4;2B0)OVERLAP_F_B,"
            "(2F6;5B2)OVERLAP_F_B,(5F5;2B1)OVERLAP_F_B,(2F7;5B3)OVERLAP_F_B,(5F6;2B2)OVERLAP_F_B,"
            "(2F8;5B4)OVERLAP_F_B,(5F7;2B3)OVERLAP_F_B,(2F9;5B5)OVERLAP_F_B,(5F8;2B4)OVERLAP_F_B,5B6,"
            "(5F9;2B5)OVERLAP_F_B,5B7,2B6,5B8,2I7,5I9,2I8,2W7,2I9,5W9,2W8,2W9");
  EXPECT_EQ(rowOf(timetable, 3),
            "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,(4F4;3B0)OVERLAP_F_B,(3F5;4B1)OVERLAP_F_B,(4F5;3B1)OVERLAP_F_B,"
            "(3F6;4B2)OVERLAP_F_B,(4F6;3B2)OVERLAP_F_B,(3F7;4B3)OVERLAP_F_B,(4F7;3B3)OVERLAP_F_B,"
            "(3F8;4B4)OVERLAP_F_B,(4F8;3B4)OVERLAP_F_B,(3F9;4B5)OVERLAP_F_B,(4F9;3B5)OVERLAP_F_B,4B6,3B6,4B7,3B7,4I8,"
            "3I8,4I9,3I9,4W8,3W8,4W9,3W9");
  EXPECT_EQ(countEntries(timetable), 182U);
}

std::string misfitOf(std::string_view name, const Shape &shape) { return findMisfit(*findNamed(name), shape); }

TEST(NamedTimetables, SayWhatShapeTheyLack) {
  EXPECT_EQ(misfitOf("zbv", {4, 1, 8}), "zbv takes 2 stages a rank, and there is 1");
  EXPECT_EQ(misfitOf("1f1b", {4, 2, 8}), "1f1b takes 1 stage a rank, and there are 2");
  EXPECT_EQ(misfitOf("interleaved", {4, 1, 8}), "interleaved takes at least 2 stages a rank, and there is 1");
  EXPECT_EQ(misfitOf("interleaved", {4, 2, 10}), "");
  EXPECT_EQ(misfitOf("interleaved", {4, 2, 9}), "interleaved takes 9 micro-batches on 4 ranks in 2 rounds, which must "
                                                "be equally long: take 8 or 12 micro-batches");
  EXPECT_THAT(misfitOf("dualpipev", {4, 2, 7}), HasSubstr("as there are stages, 8, and there are 7"));
  EXPECT_THAT(misfitOf("gpipe", {4, 1, 0}), HasSubstr("take at least one of each"));
  EXPECT_THAT(misfitOf("gpipe", {1 << 20, 1, 1 << 20}), HasSubstr("more than"));
  EXPECT_EQ(findNamed("pipedream"), nullptr);
  EXPECT_THROW(generate("zbv", {4, 1, 8}), Error);
  EXPECT_THROW(generate("zero", {4, 1, 8}), Error);
}

TEST(NamedTimetables, PlaceStagesInALoopOrAV) {
  EXPECT_THAT(placeStages(Placement::Loop, 2, 6), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(placeStages(Placement::V, 3, 6), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(stagesOf(generate("zbv", {4, 2, 8}), 1), ElementsAre(1, 6));
}

} // namespace
} // namespace dtc::timetables
