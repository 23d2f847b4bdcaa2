// Cuts against all possible cuts.
#include "passes/analysis/Stages.h"
#include "passes/pipelines/search/StageCuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

using testing::ElementsAre;

namespace dtc {
namespace {

std::vector<LayerCut> allCuts(const StageCutCosts &costs) {
  std::vector<LayerCut> cuts;
  std::vector<int64_t> layers;
  std::function<void(int64_t)> add = [&](int64_t left) {
    if (layers.size() + 1 == costs.rankOf.size()) {
      layers.push_back(left);
      cuts.push_back(costOfCut(costs, layers));
      layers.pop_back();
      return;
    }
    auto behind = static_cast<int64_t>(costs.rankOf.size() - layers.size()) - 1;
    for (int64_t count = 1; count + behind <= left; ++count) {
      layers.push_back(count);
      add(left - count);
      layers.pop_back();
    }
  };
  add(static_cast<int64_t>(costs.layers.front().size()));
  return cuts;
}

StageCutCosts randomCosts(std::mt19937 &random, std::vector<int64_t> rankOf, size_t ranks, size_t layers) {
  StageCutCosts costs{std::move(rankOf), {}, {}};
  for (size_t stage = 0; stage < costs.rankOf.size(); ++stage)
    costs.outside.push_back(static_cast<double>(random() % 20));
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> &ofRank = costs.layers.emplace_back();
    for (size_t layer = 0; layer < layers; ++layer)
      ofRank.push_back(static_cast<double>(1 + random() % 12));
  }
  return costs;
}

void expectBest(const StageCutCosts &costs) {
  std::vector<double> all;
  for (const LayerCut &cut : allCuts(costs))
    all.push_back(cut.slowest());
  std::ranges::sort(all);
  std::vector<int64_t> even = evenCut(static_cast<int64_t>(costs.layers.front().size()), costs.rankOf);
  double bound = 2 * costOfCut(costs, even).slowest();
  std::vector<LayerCut> best = bestCuts(costs, 5);
  ASSERT_FALSE(best.empty());
  for (size_t number = 0; number < best.size(); ++number)
    EXPECT_NEAR(best[number].slowest(), all[number], 1e-6 * all[number]) << number;
  if (best.size() < 5 && best.size() < all.size()) {
    EXPECT_GT(all[best.size()], bound * (1 - 1e-6));
  }
}

TEST(StageCuts, AreTheBestWithOneStageARank) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial)
    for (size_t ranks : {2, 3, 4}) {
      std::vector<int64_t> rankOf(ranks);
      for (size_t rank = 0; rank < ranks; ++rank)
        rankOf[rank] = static_cast<int64_t>(rank);
      expectBest(randomCosts(random, rankOf, ranks, ranks + random() % 6));
    }
}

// Few enough that all partial cuts are kept.
TEST(StageCuts, AreTheBestInALoopAndInAV) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 60; ++trial)
    for (const std::vector<int64_t> &rankOf :
         {std::vector<int64_t>{0, 1, 0, 1}, {0, 1, 1, 0}, {0, 1, 2, 0, 1, 2}, {0, 1, 2, 2, 1, 0}}) {
      size_t ranks = rankOf.size() / 2;
      expectBest(randomCosts(random, rankOf, ranks, rankOf.size() + random() % 4));
    }
}

StageCutCosts equalLayers(std::vector<int64_t> rankOf, size_t ranks, size_t layers, double embeddings, double head) {
  StageCutCosts costs{std::move(rankOf), {}, std::vector<std::vector<double>>(ranks, std::vector<double>(layers, 0.1))};
  costs.outside.assign(costs.rankOf.size(), 0);
  costs.outside.front() = embeddings;
  costs.outside.back() = head;
  return costs;
}

// A head of three layers: 16 in all for four ranks.
TEST(StageCuts, AHeadCountsAsLayers) {
  LayerCut best = bestCuts(equalLayers({0, 1, 2, 3}, 4, 13, 0, 0.3), 1).front();
  EXPECT_THAT(best.layers, ElementsAre(4, 4, 4, 1));
  EXPECT_NEAR(best.slowest(), 0.4, 1e-12);
  EXPECT_NEAR(best.mean(), 0.4, 1e-12);
}

// The last rank's times are all the same: of these cuts the others' are even.
TEST(StageCuts, TheOthersAreEvenToo) {
  EXPECT_THAT(bestCuts(equalLayers({0, 1, 2, 3}, 4, 10, 0, 1), 1).front().layers, ElementsAre(3, 3, 3, 1));
}

TEST(StageCuts, EqualLayersAreCutEvenly) {
  EXPECT_THAT(bestCuts(equalLayers({0, 1, 2}, 3, 12, 0, 0), 1).front().layers, ElementsAre(4, 4, 4));
  EXPECT_THAT(bestCuts(equalLayers({0, 1, 1, 0}, 2, 8, 0, 0), 1).front().layers, ElementsAre(2, 2, 2, 2));
}

TEST(StageCuts, AFastDeviceTakesMore) {
  StageCutCosts costs = equalLayers({0, 1}, 2, 9, 0, 0);
  for (double &seconds : costs.layers[0])
    seconds *= 0.5;
  EXPECT_THAT(bestCuts(costs, 1).front().layers, ElementsAre(6, 3));
}

// Many more partial cuts than are kept: the head of six layers is balanced all the same.
TEST(StageCuts, ManyStagesARank) {
  std::vector<int64_t> loop, v;
  for (int64_t stage = 0; stage < 16; ++stage) {
    loop.push_back(stage % 8);
    v.push_back(stage < 8 ? stage : 15 - stage);
  }
  for (const std::vector<int64_t> &rankOf : {loop, v}) {
    LayerCut best = bestCuts(equalLayers(rankOf, 8, 74, 0, 0.6), 1).front(); // 80 in all
    EXPECT_NEAR(best.slowest(), 1.0, 1e-9);
  }
}

// Layers left over are spread along the pipeline, or over the ranks where these have several stages.
TEST(StageCuts, EvenOnesAreEvenOverRanks) {
  EXPECT_EQ(evenCut(6, {0, 1, 2, 3}), (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_EQ(evenCut(6, {0, 1, 0, 1}), (std::vector<int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(evenCut(6, {0, 0, 1, 1}), (std::vector<int64_t>{2, 1, 2, 1}));
  for (const std::vector<int64_t> &rankOf :
       {std::vector<int64_t>{0, 1, 2, 0, 1, 2}, {0, 1, 2, 2, 1, 0}, {0, 0, 1, 1, 2, 2}})
    for (int64_t count = 6; count < 20; ++count) {
      std::vector<int64_t> layers = evenCut(count, rankOf), ofRanks(3);
      for (size_t stage = 0; stage < layers.size(); ++stage)
        ofRanks[static_cast<size_t>(rankOf[stage])] += layers[stage];
      EXPECT_LE(std::ranges::max(layers) - std::ranges::min(layers), 1) << count;
      EXPECT_LE(std::ranges::max(ofRanks) - std::ranges::min(ofRanks), 1) << count;
    }
}

TEST(StageCuts, TheEvenCutIsAmongThem) {
  StageCutCosts costs = equalLayers({0, 1, 2, 0, 1, 2}, 3, 40, 0, 1.5);
  std::vector<int64_t> even = evenCut(40, costs.rankOf);
  EXPECT_THAT(bestCuts(costs, 100000), testing::Contains(testing::Field(&LayerCut::layers, even)));
}

} // namespace
} // namespace dtc
