// From measured seconds to costs of layers on ranks that did not have them.
#include "passes/pipelines/search/StageProfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;

namespace dtc {
namespace {

std::vector<std::string> names(int64_t count) {
  std::vector<std::string> all;
  for (int64_t layer = 0; layer < count; ++layer)
    all.push_back("h." + std::to_string(layer));
  return all;
}

/// A stage for each rank: layers of so many seconds each, in order.
StageProfile profileOf(const std::vector<std::vector<double>> &ranks, std::vector<double> outside) {
  StageProfile profile{{}, std::move(outside)};
  int64_t layer = 0;
  for (const std::vector<double> &ofRank : ranks) {
    auto &layers = profile.layers.emplace_back();
    for (double seconds : ofRank)
      layers["h." + std::to_string(layer++)] = seconds;
  }
  return profile;
}

/// As a prediction has it: each layer takes as long on each rank.
StageCutCosts predictedOf(std::vector<int64_t> rankOf, size_t ranks, std::vector<double> layers,
                          std::vector<double> outside) {
  return {std::move(rankOf), std::move(outside), std::vector<std::vector<double>>(ranks, std::move(layers))};
}

auto isNear(std::vector<double> expected) { return Pointwise(DoubleNear(1e-9), std::move(expected)); }

TEST(StageProfile, EqualRanksKeepTheEvenCut) {
  StageProfile profile = profileOf({{3, 3, 3}, {3, 3, 3}}, {0, 0});
  StageCutCosts costs = measuredCosts(profile, names(6), predictedOf({0, 1}, 2, std::vector<double>(6, 1), {0, 0}));
  for (const std::vector<double> &ofRank : costs.layers)
    EXPECT_THAT(ofRank, isNear({3, 3, 3, 3, 3, 3}));
  EXPECT_THAT(bestCuts(costs, 1).front().layers, ElementsAre(3, 3));
}

// Rank 1 takes twice as long: with x of 6 layers on rank 0 it is max(x, 2 (6 - x)), least for x = 4.
TEST(StageProfile, LayersMoveAwayFromAStraggler) {
  StageProfile profile = profileOf({{1, 1, 1}, {2, 2, 2}}, {0, 0});
  StageCutCosts costs = measuredCosts(profile, names(6), predictedOf({0, 1}, 2, std::vector<double>(6, 5), {0, 0}));
  EXPECT_THAT(costs.layers[0], isNear({1, 1, 1, 1, 1, 1}));
  EXPECT_THAT(costs.layers[1], isNear({2, 2, 2, 2, 2, 2}));
  LayerCut best = bestCuts(costs, 1).front();
  EXPECT_THAT(best.layers, ElementsAre(4, 2));
  EXPECT_NEAR(best.slowest(), 4, 1e-9);
}

// An uneven cut on equal ranks is evened out, whatever the prediction's unit.
TEST(StageProfile, AnUnevenCutIsEvenedOut) {
  StageProfile profile = profileOf({{2, 2, 2, 2, 2}, {2}}, {0, 0});
  StageCutCosts costs = measuredCosts(profile, names(6), predictedOf({0, 1}, 2, std::vector<double>(6, 0.25), {0, 0}));
  LayerCut ran = costOfCut(costs, {5, 1}), best = bestCuts(costs, 1).front();
  EXPECT_THAT(ran.seconds, isNear({10, 2}));
  EXPECT_THAT(best.layers, ElementsAre(3, 3));
  EXPECT_THAT(best.seconds, isNear({6, 6}));
}

// A layer that is predicted to do twice the work does so on each rank. Rank 0 took 2 for each unit of work (6 for 3),
// rank 1 took 4 (12 for 3).
TEST(StageProfile, SlownessIsRelativeToThePrediction) {
  StageProfile profile = profileOf({{2, 4}, {8, 4}}, {0, 0});
  StageCutCosts costs = measuredCosts(profile, names(4), predictedOf({0, 1}, 2, {1, 2, 2, 1}, {0, 0}));
  EXPECT_THAT(costs.layers[0], isNear({2, 4, 4, 2}));
  EXPECT_THAT(costs.layers[1], isNear({4, 8, 8, 4}));
}

// What a cluster file says of devices counts, too: rank 1 was predicted to take three times as long, and did.
TEST(StageProfile, DevicesThatAreAsSlowAsPredictedAreNoStragglers) {
  StageCutCosts predicted{{0, 1}, {0, 0}, {{1, 1}, {3, 3}}};
  StageCutCosts costs = measuredCosts(profileOf({{5}, {15}}, {0, 0}), names(2), predicted);
  EXPECT_THAT(costs.layers[0], isNear({5, 5}));
  EXPECT_THAT(costs.layers[1], isNear({15, 15}));
}

// The head stays on its rank with what it took. Of a rank with two stages, each has the share that was predicted.
TEST(StageProfile, WhatIsOutsideStays) {
  StageProfile profile = profileOf({{1, 1}, {1, 1}}, {2, 6});
  StageCutCosts costs = measuredCosts(profile, names(4), predictedOf({0, 1, 0, 1}, 2, {1, 1, 1, 1}, {3, 0, 1, 5}));
  EXPECT_THAT(costs.outside, isNear({1.5, 0, 0.5, 6}));
  costs = measuredCosts(profile, names(4), predictedOf({0, 1, 1, 0}, 2, {1, 1, 1, 1}, {0, 0, 0, 0}));
  EXPECT_THAT(costs.outside, isNear({2, 6, 0, 0})) << "nothing is predicted: it is the first stage's";
}

// A part of a layer that another rank computes, such as a conversion where it is read, is little, and stays there.
TEST(StageProfile, ALayerBelongsToTheRankThatComputesMostOfIt) {
  StageProfile profile = profileOf({{2, 2}, {2, 2}}, {0, 1});
  profile.layers[1]["h.1"] = 0.5;
  EXPECT_THAT(ownersOf(profile, names(4)), ElementsAre(0, 0, 1, 1));
  StageCutCosts costs = measuredCosts(profile, names(4), predictedOf({0, 1}, 2, {1, 1, 1, 1}, {0, 0}));
  EXPECT_THAT(costs.outside, isNear({0, 1.5}));
  EXPECT_THAT(costOfCut(costs, {2, 2}).seconds, isNear(profile.ofRanks()));
}

TEST(StageProfile, TheCutThatRan) {
  EXPECT_THAT(cutOfOwners({0, 0, 0, 1}, {0, 1}), ElementsAre(3, 1));
  EXPECT_THAT(cutOfOwners({0, 1, 1, 0, 1}, {0, 1, 0, 1}), ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(cutOfOwners({0, 1, 1, 0}, {0, 1}), IsEmpty()) << "four stages";
  EXPECT_THAT(cutOfOwners({0, 1, 1, 0}, {0, 1, 1, 0}), IsEmpty()) << "a V: where do the two of rank 1 meet?";
}

TEST(StageProfile, OfAnotherModelOrPipeline) {
  StageProfile profile = profileOf({{1, 1}, {1, 1}}, {0, 0});
  EXPECT_THAT(findMismatch(profile, names(4), 2), IsEmpty());
  EXPECT_THAT(findMismatch(profile, names(6), 2), HasSubstr("it has 4 layers, and this one 6"));
  EXPECT_THAT(findMismatch(profile, {"h.0", "h.1", "h.2", "g.0"}, 2), HasSubstr("it has no layer g.0"));
  EXPECT_THAT(findMismatch(profile, names(4), 4), HasSubstr("a pipeline of 2 ranks, and this one has 4"));
}

} // namespace
} // namespace dtc
