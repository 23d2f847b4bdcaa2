// How much faster a link would have to be.
#include "tools/dtc/forecast/LessWaiting.h"
#include "tools/dtc/forecast/WhatIf.h"

#include "test/timing/events/steps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dtc {
namespace {

/// Two ranks that compute for two seconds. Transfers take four, in parallel with the first of these or before both.
timing::Step step(bool isNeededAtOnce) {
  timing::StepBuilder builder({{"dp", 2}});
  uint32_t group = builder.addGroup("dp", 1);
  builder.list(0).start(group, 8, 0);
  if (isNeededAtOnce)
    builder.wait(0).compute(1);
  else
    builder.compute(1).wait(0);
  builder.compute(1);
  return builder.step;
}

timing::Layout layoutOf(const timing::Step &step, double bandwidth) {
  timing::Cluster cluster = timing::unitCluster(2);
  cluster.mutable_levels(0)->set_bandwidth(bandwidth);
  return timing::Layout(cluster, step.mesh);
}

TEST(LessWaitingTest, TheLeastBandwidthThatHidesIt) {
  timing::Step hidden = step(/*isNeededAtOnce=*/false);
  timing::Layout layout = layoutOf(hidden, 1);
  Waiting now = waitingOf(hidden, layout);
  EXPECT_DOUBLE_EQ(now.step, 5);
  EXPECT_DOUBLE_EQ(now.moving, 3);
  std::optional<FasterLink> found = findFasterLink(hidden, layout);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->level, "link");
  EXPECT_DOUBLE_EQ(found->before, 1);
  // With 1.05 / 0.95 of a second for transfers, a twentieth of the step is waiting; the factors tried differ by a
  // twentieth.
  double least = 4 / (1.05 / 0.95);
  EXPECT_GE(found->factor, least);
  EXPECT_LT(found->factor, 1.05 * least);
  EXPECT_DOUBLE_EQ(found->after, found->factor);
  // The reported result is what simulating with --what-if reports.
  timing::Cluster faster = layout.cluster();
  timing::Conditions conditions;
  applyWhatIf(fmt::format("bandwidth.link={}", found->factor), 2, faster, conditions);
  EXPECT_DOUBLE_EQ(timing::simulate(hidden, timing::Layout(faster, hidden.mesh)).seconds, found->then.step);
  EXPECT_THAT(textOf(*found), testing::StartsWith("remedy: link at 4 bytes/s instead of 1 bytes/s: ranks wait "));
}

TEST(LessWaitingTest, NothingIsSaidWhereRanksHardlyWait) {
  timing::Step hidden = step(/*isNeededAtOnce=*/false);
  EXPECT_FALSE(findFasterLink(hidden, layoutOf(hidden, 4)));
}

TEST(LessWaitingTest, NothingIsSaidWhereNoBandwidthIsEnough) {
  timing::Step exposed = step(/*isNeededAtOnce=*/true);
  EXPECT_TRUE(findFasterLink(exposed, layoutOf(exposed, 1)));
  EXPECT_FALSE(findFasterLink(exposed, layoutOf(exposed, 0.1)));
}

TEST(LessWaitingTest, NobodyBuysFasterMemory) {
  timing::Step hidden = step(/*isNeededAtOnce=*/false);
  timing::Cluster shared = timing::unitCluster(2);
  shared.mutable_levels(0)->set_transport(timing::Level::SHARED_MEMORY);
  EXPECT_FALSE(findFasterLink(hidden, timing::Layout(shared, hidden.mesh)));
}

TEST(LessWaitingTest, ARemedyIsReadBack) {
  MoreAccumulation remedy{8, 64, {12, 0.5}, 0.75};
  EXPECT_EQ(textOf(accumulationFrom(toJson(remedy))),
            "remedy: accumulation = 8 and global_batch = 64, micro-batches as they are: ranks wait 500 ms of 12 s, 25% "
            "less time a token");
}

} // namespace
} // namespace dtc
