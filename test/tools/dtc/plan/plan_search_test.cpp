// Searches for plans, compared with evaluating every candidate.
#include "test/tools/dtc/plan/problems.h"
#include "tools/dtc/plan/ClusterSize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace dtc {
namespace {

using plans::Candidate;
using plans::Evaluated;

constexpr int64_t Much = 1'000'000'000;
constexpr PlanLimits NoLimit{.rows = 10, .most = 0};

double fastest(const std::vector<Evaluated> &all) {
  double best = std::numeric_limits<double>::infinity();
  for (const Evaluated &each : all)
    if (each.fits())
      best = std::min(best, each.seconds);
  return best;
}

/// Of all candidates, the least bytes that one needs.
double leastBytes(const plans::Problem &problem) {
  std::vector<Evaluated> all = allFigures(problem);
  return std::ranges::min_element(all, {}, &Evaluated::bytes)->bytes;
}

TEST(PlanSearchTest, ThePlanIsThatOfAllCandidates) {
  // With much memory, and with so little that some candidates do not fit.
  double little = 1.3 * leastBytes(problemOn(gpus(2, Much), 8));
  for (int64_t memory : {Much, static_cast<int64_t>(little)}) {
    plans::Problem problem = problemOn(gpus(2, memory), 8);
    std::vector<Evaluated> all = allFigures(problem);
    auto fitting = std::ranges::count_if(all, &Evaluated::fits);
    ASSERT_GT(fitting, 0);
    if (memory != Much) {
      ASSERT_LT(fitting, std::ssize(all));
    }
    CountingEvaluator counting;
    PlanSearch search(problem, {}, counting.function(), NoLimit);
    PlannedNumber planned = search.plan(8);
    EXPECT_TRUE(planned.outcome.isComplete);
    EXPECT_EQ(planned.outcome.considered, std::ssize(all));
    ASSERT_FALSE(planned.rows.empty());
    EXPECT_LE(std::ssize(planned.rows), std::min<int64_t>(10, fitting));
    if (memory == Much) {
      EXPECT_EQ(planned.rows.size(), 10U);
    }
    EXPECT_EQ(std::accumulate(planned.outcome.pruned.begin(), planned.outcome.pruned.end(),
                              std::ssize(planned.outcome.evaluated),
                              [](auto sum, const plans::PrunedBy &pruned) { return sum + pruned.candidates; }),
              std::ssize(all));
    double best = fastest(all);
    EXPECT_LE(planned.best().seconds, 1.03 * best * (1 + 1e-12)); // the simple first, within 3%
    std::vector<double> others;
    for (const PlanRow &row : planned.rows) {
      EXPECT_TRUE(row.plan.fits());
      others.push_back(row.plan.seconds);
    }
    EXPECT_TRUE(std::is_sorted(others.begin() + 1, others.end()));
    EXPECT_DOUBLE_EQ(*std::ranges::min_element(others), best);
    EXPECT_EQ(counting.evaluated, search.evaluatedCount());
    EXPECT_LE(counting.evaluated, std::ssize(all));
  }
}

TEST(PlanSearchTest, CandidatesAreEvaluatedOnce) {
  plans::Problem problem = problemOn(gpus(1, Much), 4);
  CountingEvaluator counting;
  PlanSearch search(problem, {}, counting.function(), NoLimit);
  search.plan(4);
  int64_t before = counting.evaluated;
  EXPECT_GT(before, 0);
  search.plan(4);
  EXPECT_EQ(counting.evaluated, before);
}

TEST(PlanSearchTest, TheFewestDevicesAreThoseOfAllCandidates) {
  // Memory for what three devices need at least: fewer devices must not do, and how many do is counted.
  auto memory = static_cast<int64_t>(leastBytes(problemOn(gpus(2, Much), 3))) + 1;
  int64_t expected = 0;
  for (int64_t devices = 1; expected == 0 && devices <= 8; ++devices)
    if (fastest(allFigures(problemOn(gpus(2, memory), devices))) < std::numeric_limits<double>::infinity())
      expected = devices;
  ASSERT_GT(expected, 1);
  CountingEvaluator counting;
  PlanSearch search(problemOn(gpus(2, memory), 1), {}, counting.function(), NoLimit);
  auto least = search.leastDevices(1, 8, /*most=*/0);
  ASSERT_TRUE(least);
  EXPECT_EQ(least->devices, expected);
  EXPECT_TRUE(least->isProven);
  EXPECT_FALSE(search.leastDevices(1, expected - 1, 0));
}

TEST(PlanSearchTest, AProofNeedsAllCandidates) {
  plans::Problem one = problemOn(gpus(2, Much), 1);
  std::vector<Evaluated> all = allFigures(one);
  ASSERT_GT(all.size(), 1U);
  // Between the least bound and 5/4 of it, so that no bound excludes the leanest candidate, and it does not fit.
  auto memory = static_cast<int64_t>(1.1 * leastBytes(one) / 1.25);
  CountingEvaluator counting;
  PlanSearch search(problemOn(gpus(2, memory), 1), {}, counting.function(), NoLimit);
  auto within = std::ranges::count_if(
      all, [&](const Evaluated &each) { return each.bytes / 1.25 <= static_cast<double>(memory); });
  ASSERT_GT(within, 0);
  auto least = search.leastDevices(1, 8, within);
  ASSERT_TRUE(least);
  EXPECT_TRUE(least->isProven);
  if (within > 1) {
    auto hasty = search.leastDevices(1, 8, within - 1);
    ASSERT_TRUE(hasty);
    EXPECT_FALSE(hasty->isProven);
  }
}

TEST(PlanSearchTest, WhatLacksLeastIsThatOfAllCandidates) {
  auto memory = static_cast<int64_t>(0.9 * leastBytes(problemOn(gpus(1, Much), 2)));
  plans::Problem problem = problemOn(gpus(1, memory), 2);
  std::vector<Evaluated> all = allFigures(problem);
  ASSERT_TRUE(std::ranges::none_of(all, &Evaluated::fits));
  CountingEvaluator counting;
  PlanSearch search(problem, {}, counting.function(), NoLimit);
  auto lack = search.leastLack(problem);
  ASSERT_TRUE(lack);
  EXPECT_FALSE(lack->isBound);
  EXPECT_DOUBLE_EQ(lack->bytes, std::ranges::min_element(all, {}, &Evaluated::lack)->lack);
}

TEST(PlanSearchTest, ALargerClusterHasMoreNodesLikeTheLast) {
  timing::Cluster cluster = gpus(2, Much);
  EXPECT_EQ(deviceCount(cluster), 8);
  EXPECT_EQ(deviceCount(withMoreNodes(cluster, 8)), 8);
  timing::Cluster more = withMoreNodes(cluster, 9);
  EXPECT_EQ(deviceCount(more), 12);
  EXPECT_EQ(timing::findClusterFault(more), "");
  timing::Cluster single = gpus(1, Much); // whose links end within the node
  single.mutable_levels()->RemoveLast();
  more = withMoreNodes(single, 13);
  EXPECT_EQ(deviceCount(more), 16);
  EXPECT_EQ(timing::findClusterFault(more), "");
}

} // namespace
} // namespace dtc
