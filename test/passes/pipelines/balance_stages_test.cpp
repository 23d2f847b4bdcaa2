// Cuts by cost: on devices of different speed, within the memory that there is, and as remarks.
#include "passes/pipelines/search/BalanceStages.h"
#include "passes/pipelines/search/CommandSeconds.h"
#include "test/passes/pipelines/compilation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::MatchesRegex;

namespace dtc::test {
namespace {

/// Two nodes of one device each, the second of which takes so many times as long.
timing::Cluster twoDevices(double slowness) {
  timing::Cluster cluster = timing::parseCluster(R"(
name: "two"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
devices { name: "b" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 1 }
nodes { device: "b" devices: 1 count: 1 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
)",
                                                 "test");
  timing::Device &slow = *cluster.mutable_devices(1);
  slow.mutable_peaks(0)->set_flops(1e11 / slowness);
  slow.set_memory_bandwidth(1e10 / slowness);
  return cluster;
}

const Case twoStages = {"two_stages", "gpt-small", "pp=2", "ddp", 4};

struct Balance {
  explicit Balance(double slowness, const Case &setup = twoStages) : compilation(setup) {
    planner = compilation.makePlanner();
    layout.emplace(twoDevices(slowness), planner->mesh());
  }

  BalancedStages run(uint64_t limit = 0) {
    FailureOr<std::optional<BalancedStages>> found = balanceStages(*planner, given, limit, *layout);
    EXPECT_TRUE(succeeded(found) && *found);
    return std::move(**found);
  }

  StageCutCosts costs() {
    FailureOr<PlannedCut> cut = planner->cut(given);
    EXPECT_TRUE(succeeded(cut));
    FailureOr<StageCutCosts> costs = stageCutCosts(*planner, given, *cut, layout->deviceOf(0), &*layout);
    EXPECT_TRUE(succeeded(costs));
    return std::move(*costs);
  }

  uint64_t arenaOf(const std::vector<int64_t> &layers) {
    Choices choices = given;
    choices.layers = layers;
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    return largestArena(*plan);
  }

  Compilation compilation;
  std::unique_ptr<Planner> planner;
  std::optional<timing::Layout> layout;
  Choices given;
};

// What layers and stages take is what the passes take.
TEST(BalanceStages, CostsAreThoseOfThePasses) {
  Balance balance(1);
  StageCutCosts costs = balance.costs();
  ASSERT_EQ(costs.layers.size(), 2U);
  ASSERT_EQ(costs.layers[0].size(), 4U);
  for (size_t layer = 1; layer < 4; ++layer)
    EXPECT_NEAR(costs.layers[0][layer], costs.layers[0][0], 0.5 * costs.layers[0][0]);
  EXPECT_GT(costs.layers[0][0], 0);
  EXPECT_GT(costs.outside[0], 0);
  EXPECT_GT(costs.outside[1], 0);
  FailureOr<Plan> plan = balance.planner->plan(balance.given);
  ASSERT_TRUE(succeeded(plan));
  CommandSeconds seconds(balance.layout->deviceOf(0), &*balance.layout, balance.planner->mesh());
  LayerCut even = costOfCut(costs, {2, 2});
  for (size_t rank = 0; rank < 2; ++rank) { // a step also updates
    double step = seconds.ofStep(*plan->roles[rank].role);
    EXPECT_LT(4 * even.seconds[rank], step);
    EXPECT_GT(4 * even.seconds[rank], 0.2 * step);
  }
}

TEST(BalanceStages, ASlowDeviceGetsFewerLayers) {
  BalancedStages found = Balance(8).run();
  EXPECT_THAT(found.chosen.layers, ElementsAre(3, 1));
  EXPECT_THAT(found.choices.layers, ElementsAre(3, 1));
  EXPECT_THAT(found.even.layers, ElementsAre(2, 2));
  EXPECT_LT(found.chosen.slowest(), found.even.slowest());
  EXPECT_FALSE(found.isForMemory);
}

TEST(BalanceStages, TheFirstThatFitsIsTaken) {
  Balance balance(8);
  std::vector<LayerCut> cuts = bestCuts(balance.costs(), 3);
  ASSERT_GE(cuts.size(), 2U);
  ASSERT_THAT(cuts[0].layers, ElementsAre(3, 1));
  ASSERT_THAT(cuts[1].layers, ElementsAre(2, 2));
  for (const LayerCut &cut : cuts) {
    uint64_t limit = balance.arenaOf(cut.layers);
    auto expected = llvm::find_if(cuts, [&](const LayerCut &each) { return balance.arenaOf(each.layers) <= limit; });
    BalancedStages found = balance.run(limit);
    EXPECT_EQ(found.chosen.layers, expected->layers) << limit;
    EXPECT_EQ(found.isForMemory, expected != cuts.begin());
  }
  uint64_t least = balance.arenaOf(cuts[0].layers);
  for (const LayerCut &cut : cuts)
    least = std::min(least, balance.arenaOf(cut.layers));
  EXPECT_EQ(balance.arenaOf(balance.run(1).chosen.layers), least) << "nothing fits";
}

TEST(BalanceStages, WhatTheUserSaysStays) {
  Balance balance(8);
  balance.given.layers = {2, 2};
  FailureOr<std::optional<BalancedStages>> found = balanceStages(*balance.planner, balance.given, 0, *balance.layout);
  ASSERT_TRUE(succeeded(found));
  EXPECT_FALSE(*found);
  Balance whole(8, {"no_stages", "gpt-small", "dp=2", "ddp", 4});
  found = balanceStages(*whole.planner, whole.given, 0, *whole.layout);
  ASSERT_TRUE(succeeded(found));
  EXPECT_FALSE(*found);
}

// As measured: rank 1 takes four times as long for its layers, on devices that are predicted to be equal.
TEST(BalanceStages, AProfileTakesThePlaceOfThePrediction) {
  Balance balance(1);
  StageProfile profile{{{{"h.0", 1}, {"h.1", 1}}, {{"h.2", 4}, {"h.3", 4}}}, {0, 0}};
  auto run = [&] {
    FailureOr<ProfiledStages> found =
        balanceByProfile(*balance.planner, balance.given, profile, 0, balance.layout->deviceOf(0), /*layout=*/nullptr);
    EXPECT_TRUE(succeeded(found));
    return std::move(*found);
  };
  ProfiledStages found = run();
  EXPECT_THAT(found.cut.chosen.layers, ElementsAre(3, 1));
  EXPECT_THAT(found.cut.choices.layers, ElementsAre(3, 1));
  EXPECT_THAT(found.cut.even.seconds, ElementsAre(2, 8));
  EXPECT_THAT(found.stages, ElementsAre("stage 0", "stage 1"));
  EXPECT_TRUE(found.isOfThisCut);
  EXPECT_THAT(found.uneven,
              MatchesRegex("stage 1 takes 1\\.60 times the mean; \\[stages\\] layers = \\[3, 1\\] would take "
                           "1\\.[0-9]+"));
  // What the choices say is replaced, by the even cut, too.
  balance.given.layers = {3, 1};
  profile.layers = {{{"h.0", 1}, {"h.1", 1}, {"h.2", 1}}, {{"h.3", 1}}};
  found = run();
  EXPECT_TRUE(found.isOfThisCut);
  EXPECT_THAT(found.cut.choices.layers, ElementsAre(2, 2));
  // The profile of another cut is known as such, and that cut is compared with.
  balance.given.layers = {1, 3};
  found = run();
  EXPECT_FALSE(found.isOfThisCut);
  EXPECT_THAT(found.cut.even.layers, ElementsAre(3, 1));
  profile.layers[1].erase("h.3");
  FailureOr<ProfiledStages> refused =
      balanceByProfile(*balance.planner, balance.given, profile, 0, balance.layout->deviceOf(0), /*layout=*/nullptr);
  EXPECT_TRUE(failed(refused));
}

TEST(BalanceStages, SaysWhichStageIsSlow) {
  Balance balance(8);
  auto textFor = [&](std::vector<int64_t> layers) {
    balance.given.layers = std::move(layers);
    FailureOr<std::string> text =
        findUnevenStages(*balance.planner, balance.given, balance.layout->deviceOf(0), &*balance.layout);
    EXPECT_TRUE(succeeded(text));
    return *text;
  };
  EXPECT_THAT(textFor({3, 1}), IsEmpty());
  EXPECT_THAT(textFor({1, 3}), MatchesRegex("stage 1 takes 1\\.[0-9]+ times the mean.*; \\[stages\\] layers = "
                                            "\\[3, 1\\] would take 1\\.[0-9]+"));
}

} // namespace
} // namespace dtc::test
