// Intervals that share memory, compared with the rule's plain definition.
#include "passes/schedule/memory/StoragePlan.h"

#include "runtime/abi/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>

using namespace dtc;

namespace {

class Draws {
public:
  explicit Draws(uint32_t seed) : stream(random::stream(seed, 0, 0)) {}
  int below(int limit) { return int(random::uniform(stream, count++) * limit); }

private:
  uint32_t stream;
  uint64_t count = 0;
};

/// Few sizes or many, short lives and long ones, and nested ones as in a forward and a backward pass.
StorageProblem randomProblem(uint32_t seed) {
  Draws draws(seed);
  StorageProblem problem;
  problem.unit = draws.below(2) == 0 ? 1 : 64;
  int count = 1 + draws.below(120), positions = 1 + draws.below(100),
      sizes = 1 + draws.below(draws.below(2) ? 4 : 1000);
  for (int i = 0; i < count; ++i) {
    int first = draws.below(positions), last = first;
    switch (draws.below(3)) {
    case 0:
      last = std::min(positions - 1, first + draws.below(4));
      break;
    case 1:
      last = std::max(first, positions - 1 - first);
      break;
    default:
      last = first + draws.below(positions - first);
    }
    problem.intervals.push_back({uint64_t(draws.below(sizes + 1)), first, last});
  }
  return problem;
}

bool liveTogether(const StorageInterval &a, const StorageInterval &b) { return a.first <= b.last && b.first <= a.last; }

/// Each looks at all before it, at each place where one of them ends.
StorageSolution placePlainly(const StorageProblem &problem) {
  const auto &intervals = problem.intervals;
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, {}, [&](size_t i) { return std::tuple(~intervals[i].bytes, intervals[i].first, i); });
  StorageSolution solution{std::vector<uint64_t>(intervals.size()), 0};
  for (size_t placed = 0; placed < order.size(); ++placed) {
    size_t index = order[placed];
    uint64_t room = problem.roomOf(intervals[index]);
    std::vector<uint64_t> candidates = {0};
    auto forEachOther = [&](auto visit) {
      for (size_t before = 0; before < placed; ++before)
        if (size_t other = order[before]; liveTogether(intervals[index], intervals[other]))
          visit(solution.offsets[other], solution.offsets[other] + problem.roomOf(intervals[other]));
    };
    forEachOther([&](uint64_t, uint64_t end) { candidates.push_back(end); });
    std::ranges::sort(candidates);
    solution.offsets[index] = *std::ranges::find_if(candidates, [&](uint64_t offset) {
      bool free = true;
      forEachOther([&](uint64_t begin, uint64_t end) { free &= end <= offset || offset + room <= begin; });
      return free;
    });
    solution.end = std::max(solution.end, solution.offsets[index] + room);
  }
  return solution;
}

/// Bytes alive at each position.
std::vector<uint64_t> countLive(const StorageProblem &problem, int positions) {
  std::vector<uint64_t> live(positions);
  for (const StorageInterval &interval : problem.intervals)
    for (int at = interval.first; at <= interval.last; ++at)
      live[at] += problem.roomOf(interval);
  return live;
}

TEST(StorageProblem, LargestFirstAtTheLowestFreeOffset) {
  int above = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StorageProblem problem = randomProblem(seed);
    ASSERT_EQ(problem.check(), "");
    StorageSolution solution = placeLargestFirst(problem), plain = placePlainly(problem);
    ASSERT_EQ(solution.offsets, plain.offsets);
    ASSERT_EQ(solution.end, plain.end);
    ASSERT_EQ(problem.verify(solution), "");
    uint64_t bound = std::ranges::max(countLive(problem, 100));
    ASSERT_GE(solution.end, bound);
    above += solution.end > bound;
  }
  EXPECT_GT(above, 300); // memory has gaps, which is where it could go wrong
}

TEST(StorageProblem, WhatIsNoSolutionIsRefused) {
  int refused = 0, taken = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StorageProblem problem = randomProblem(seed);
    StorageSolution solution = placeLargestFirst(problem);
    Draws draws(seed + 100000);
    size_t moved = draws.below(int(problem.intervals.size()));
    uint64_t &offset = solution.offsets[moved];
    offset = draws.below(int(solution.end) + 1) / problem.unit * problem.unit;
    uint64_t end = offset + problem.intervals[moved].bytes;
    bool fits = end <= solution.end;
    for (size_t other = 0; other < problem.intervals.size(); ++other) {
      uint64_t begin = solution.offsets[other], otherEnd = begin + problem.intervals[other].bytes;
      fits &= other == moved || !liveTogether(problem.intervals[moved], problem.intervals[other]) ||
              std::max(begin, offset) >= std::min(end, otherEnd);
    }
    ASSERT_EQ(problem.verify(solution) == "", fits) << problem.verify(solution);
    (fits ? taken : refused) += 1;
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(taken, 100);
}

TEST(StorageProblem, WhatASolutionMustBe) {
  StorageProblem problem{{{10, 0, 1}, {10, 1, 2}}, 8};
  EXPECT_EQ(problem.verify({{0, 16}, 26}), "");
  EXPECT_NE(problem.verify({{0, 16}, 25}).find("beyond the end"), std::string::npos);
  EXPECT_NE(problem.verify({{0, 12}, 32}).find("no multiple of the unit"), std::string::npos);
  EXPECT_NE(problem.verify({{0, 8}, 32}).find("interval 1 (10 bytes from 1 to 2) lies over interval 0"),
            std::string::npos);
  EXPECT_NE(problem.verify({{0}, 32}), "");
}

TEST(StorageProblem, WhatAProblemMustBe) {
  EXPECT_NE((StorageProblem{{{10, 0, 1}}, 0}.check()), "");
  EXPECT_NE((StorageProblem{{{10, 0, 1}, {10, 2, 1}}, 1}.check().find("interval 1")), std::string::npos);
  EXPECT_NE((StorageProblem{{{10, -1, 1}}, 1}.check()), "");
  EXPECT_EQ((StorageProblem{{}, 1}.check()), "");
  EXPECT_EQ(placeLargestFirst({{}, 1}).end, 0U);
}

// Intervals come, go and are changed in any order.
TEST(LiveBytes, TheMostAndWhereItIs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StorageProblem problem = randomProblem(seed);
    Draws draws(seed + 200000);
    LiveBytes live(100);
    for (const StorageInterval &each : problem.intervals)
      live.add(each.first, each.last, problem.roomOf(each));
    for (int change = 0; change < 20; ++change) {
      StorageInterval &each = problem.intervals[draws.below(int(problem.intervals.size()))];
      live.remove(each.first, each.last, problem.roomOf(each));
      each.first = draws.below(100);
      each.last = each.first + draws.below(100 - each.first);
      live.add(each.first, each.last, problem.roomOf(each));
      std::vector<uint64_t> expected = countLive(problem, 100);
      auto most = std::ranges::max_element(expected);
      ASSERT_EQ(live.most(), *most);
      ASSERT_EQ(live.firstOfMost(), most - expected.begin());
    }
  }
}

// Intervals get other bytes and lives, are removed, come back and are added. Each time the result equals placing all
// from scratch.
TEST(StoragePlan, IsWhatPlacingAnewGives) {
  int moved = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draws draws(seed + 300000);
    StoragePlan plan(randomProblem(seed));
    for (int change = 0; change < 30; ++change) {
      const std::vector<StorageInterval> &intervals = plan.problem().intervals;
      size_t index = draws.below(int(intervals.size()));
      StorageInterval other = intervals[index];
      int what = draws.below(4);
      if (what != 1) {
        other.first = draws.below(100);
        other.last = other.first + draws.below(100 - other.first);
      }
      if (what > 0)
        other.bytes = draws.below(3) == 0 ? 0 : intervals[draws.below(int(intervals.size()))].bytes + draws.below(2);
      std::vector<uint64_t> before = plan.solution().offsets;
      if (what == 3)
        ASSERT_EQ(plan.add(other), before.size());
      else
        plan.change(index, other);
      StorageSolution anew = placeLargestFirst(plan.problem());
      ASSERT_EQ(plan.solution().offsets, anew.offsets);
      ASSERT_EQ(plan.solution().end, anew.end);
      before.resize(anew.offsets.size());
      moved += before != anew.offsets;
    }
  }
  EXPECT_GT(moved, 6000);
}

/// What layers keep from the forward to the backward pass, with short lives between: as in a training step.
StorageProblem stepOf(int layers) {
  constexpr int kept = 10, brief = 50;
  StorageProblem problem{{}, 64};
  int each = kept + brief, positions = 2 * layers * each;
  for (int layer = 0; layer < 2 * layers; ++layer)
    for (int i = 0; i < each; ++i) {
      int at = layer * each + i;
      bool isKept = i < kept && layer < layers;
      problem.intervals.push_back({uint64_t(64 << (i % 5)), at, isKept ? positions - 1 - at : at + 1 + i % 3});
    }
  return problem;
}

// Not a measurement: a scan of all earlier intervals would take some hundred times as long for sixteen times the
// layers.
TEST(StorageProblem, TimeIsInProportionToTheIntervals) {
  auto secondsFor = [](int layers) {
    StorageProblem problem = stepOf(layers);
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      std::clock_t begin = std::clock(); // CPU time of this process: others may use the processor
      StorageSolution solution = placeLargestFirst(problem);
      least = std::min(least, double(std::clock() - begin) / CLOCKS_PER_SEC);
      EXPECT_EQ(problem.verify(solution), "");
    }
    RecordProperty("microseconds_an_interval_of_" + std::to_string(layers),
                   std::to_string(least * 1e6 / double(problem.intervals.size())));
    return least;
  };
  double few = secondsFor(50), many = secondsFor(800);
  EXPECT_LT(many, 60 * few);
}

// A thousand questions in the time of some ten placements from scratch.
TEST(StoragePlan, AChangeCostsLittle) {
  constexpr int changes = 300;
  StorageProblem problem = stepOf(96);
  int positions = 2 * 96 * 60 + 40;
  auto secondsSince = [](std::clock_t begin) { return double(std::clock() - begin) / CLOCKS_PER_SEC; };
  std::clock_t begin = std::clock();
  for (int i = 0; i < 10; ++i)
    EXPECT_GT(placeLargestFirst(problem).end, 0U);
  double anew = secondsSince(begin) / 10;
  StoragePlan plan(problem);
  Draws draws(1);
  begin = std::clock();
  for (int i = 0; i < changes; ++i) {
    size_t index = draws.below(int(problem.intervals.size()));
    StorageInterval longer = problem.intervals[index];
    longer.last = std::min(positions - 1, longer.last + 1 + draws.below(20));
    plan.change(index, longer);
    plan.change(index, problem.intervals[index]);
  }
  double each = secondsSince(begin) / (2 * changes);
  EXPECT_EQ(plan.solution().offsets, placeLargestFirst(problem).offsets);
  RecordProperty("microseconds_a_change", std::to_string(each * 1e6));
  RecordProperty("microseconds_anew", std::to_string(anew * 1e6));
  EXPECT_LT(each, anew);
}

} // namespace
