// "auto": the result of the search keeps within the memory, and is never slower than a named timetable.
#include "runtime/support/error.h"
#include "test/long_tests.h"
#include "timing/timetables/check.h"
#include "timing/timetables/named.h"
#include "timing/timetables/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace dtc::timetables {
namespace {

class SearchTest : public testing::Test {
protected:
  int32_t below(int32_t bound) { return static_cast<int32_t>(random() % static_cast<uint64_t>(bound)); }
  double between(double least, double most) { return least + (most - least) * below(1001) / 1000; }

  /// Random passes, links and memory, which is enough for a micro-batch.
  SearchRequest make() {
    SearchRequest request;
    request.ranks = 2 + below(7);
    int32_t perRank = 1 + below(2);
    request.microBatches = 1 + below(3 * request.ranks);
    request.costs = equalCosts(request.ranks * perRank, between(0.5, 1.5), between(0.5, 1.5), between(0.3, 1.2),
                               between(0, 0.3));
    if (below(2) == 1) // stages that differ
      for (StageCosts &stage : request.costs.stages) {
        double share = between(0.7, 1.3);
        stage.forward *= share;
        stage.input *= share;
        stage.weight *= share;
        stage.backward = stage.input + stage.weight;
      }
    request.memoryLimit = perRank * (1 + below(2 * request.ranks));
    request.effort = test::testsMayBeLong() ? 2'000'000 : 300'000;
    return request;
  }

  std::mt19937_64 random{26};
};

/// The fastest named timetable within the memory; infinity: there is none.
double bestNamed(const SearchRequest &request) {
  double best = std::numeric_limits<double>::infinity();
  auto perRank = static_cast<int32_t>(request.costs.stages.size()) / request.ranks;
  for (const Named &named : allNamed()) {
    Shape shape{request.ranks, perRank, request.microBatches};
    if (!findMisfit(named, shape).empty())
      continue;
    Timetable timetable = generate(named, shape);
    if (std::ranges::max(peakMemory(timetable, request.costs)) <= *request.memoryLimit)
      best = std::min(best, stepSeconds(timetable, request.costs));
  }
  return best;
}

TEST_F(SearchTest, IsNeverWorseThanANamedTimetableAndOftenBetter) {
  constexpr int32_t cases = 1000;
  int32_t better = 0, betterThanPipelines = 0, pipelines = 0;
  for (int32_t i = 0; i < cases; ++i) {
    SearchRequest request = make();
    SearchResult result = searchTimetable(request);
    ASSERT_EQ(findFault(result.timetable, static_cast<int64_t>(*request.memoryLimit)), "") << i;
    ASSERT_EQ(findWeightsOutOfOrder(result.timetable), "") << i;
    ASSERT_LE(std::ranges::max(peakMemory(result.timetable, request.costs)), *request.memoryLimit) << i;
    double named = bestNamed(request);
    ASSERT_DOUBLE_EQ(result.namedSeconds, named) << i;
    ASSERT_DOUBLE_EQ(result.seconds, stepSeconds(result.timetable, request.costs)) << i;
    ASSERT_LE(result.seconds, named) << i;
    bool isBetter = named >= 1.02 * result.seconds;
    better += isBetter ? 1 : 0;
    if (result.bestNamed != "naive") { // which is all that fits in little memory
      ++pipelines;
      betterThanPipelines += isBetter ? 1 : 0;
    }
  }
  EXPECT_GE(better, cases / 10);
  EXPECT_GE(betterThanPipelines, pipelines / 10);
  RecordProperty("cases", cases);
  RecordProperty("better", better);
  std::printf("%d of %d better by 2%%; of those where more than naive fits, %d of %d\n", better, cases,
              betterThanPipelines, pipelines);
}

TEST_F(SearchTest, GivesTheSameTimetableEachTime) {
  for (int32_t i = 0; i < 5; ++i) {
    SearchRequest request = make();
    request.effort = 100'000;
    EXPECT_EQ(searchTimetable(request).timetable.ranks, searchTimetable(request).timetable.ranks);
  }
}

// No rank can wait less than it takes to fill the pipeline; ZB-H1 is as short, and the search must find it.
TEST_F(SearchTest, FindsWhatCannotBeShorter) {
  SearchRequest request{4, 8, equalCosts(4), 4.0};
  SearchResult result = searchTimetable(request);
  EXPECT_DOUBLE_EQ(result.seconds, 27);
  EXPECT_EQ(result.bestNamed, "zb-h1");
  EXPECT_EQ(result.timetable.name, "auto");
}

// Stages that differ: the last has a head that takes as long as two others.
TEST_F(SearchTest, TakesStagesThatDiffer) {
  SearchRequest request{4, 8, equalCosts(8), 12.0};
  request.costs.stages[7].forward = request.costs.stages[7].input = request.costs.stages[7].weight = 3;
  request.costs.stages[7].backward = 6;
  SearchResult result = searchTimetable(request);
  EXPECT_EQ(findFault(result.timetable, 12), "");
  EXPECT_LE(result.seconds, result.namedSeconds);
  EXPECT_GE(result.seconds, 8 * 12) << "one rank has two stages, of 9 and at least 3";
}

TEST_F(SearchTest, KeepsRoomForWhatInputGradientsKeep) {
  for (double limit : {1.5, 2.5, 4.0, 6.0}) {
    SearchRequest request{4, 8, equalCosts(4), limit, 300'000};
    for (StageCosts &stage : request.costs.stages) {
      stage.stashForWeight = 0.75;
      stage.gradientStash = 0.5;
    }
    SearchResult result = searchTimetable(request);
    EXPECT_EQ(findFault(result.timetable), "") << limit;
    EXPECT_LE(std::ranges::max(peakMemory(result.timetable, request.costs)), limit);
    EXPECT_LE(result.seconds, result.namedSeconds) << limit;
  }
}

TEST_F(SearchTest, SaysWhatMemoryIsNeeded) {
  SearchRequest request{2, 4, equalCosts(4), 1.0};
  try {
    searchTimetable(request);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_STREQ(error.what(), "no timetable fits in a memory limit of 1: one micro-batch's stashes take 2");
  }
  request.memoryLimit = 2;
  EXPECT_EQ(findFault(searchTimetable(request).timetable, 2), "");
}

} // namespace
} // namespace dtc::timetables
