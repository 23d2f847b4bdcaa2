#include "test/refusal.h"
#include "test/timing/plans/spaces.h"

#include <gmock/gmock.h>

namespace dtc::plans {
namespace {

using testing::HasSubstr;

/// A node of two devices of 80 GB, and one of two of 40 GB.
timing::Cluster unequal() {
  return timing::parseCluster("name: \"unequal\"\n" + gpuText("large", 80) + gpuText("small", 40) +
                                  "nodes { count: 1 device: \"large\" devices: 2 }\n"
                                  "nodes { count: 1 device: \"small\" devices: 2 }\n" +
                                  levelText(2) + levelText(2),
                              "unequal.textproto");
}

TEST(PlanRoom, IsThatOfTheSmallestDeviceThatIsUsed) {
  EXPECT_DOUBLE_EQ(roomOf(problemOf(gpus({4}), 4)), 80e9);
  EXPECT_DOUBLE_EQ(roomOf(problemOf(unequal(), 2)), 80e9);
  EXPECT_DOUBLE_EQ(roomOf(problemOf(unequal(), 3)), 40e9);
}

TEST(PlanRoom, OfAProcessorsNodeIsShared) {
  EXPECT_DOUBLE_EQ(roomOf(problemOf(processors(1), 1)), 16e9);
  EXPECT_DOUBLE_EQ(roomOf(problemOf(processors(1), 4)), 4e9);
  EXPECT_DOUBLE_EQ(roomOf(problemOf(processors(2), 4)), 8e9) << "two on each";
  EXPECT_DOUBLE_EQ(roomOf(problemOf(processors(2), 5)), 16e9 / 3) << "three on the first, two on the second";
}

TEST(PlanRoom, LeavesAMarginOfTheDeviceAndKeepsToTheLimit) {
  Problem problem = problemOf(gpus({4}), 4);
  problem.margin = 0.25;
  EXPECT_DOUBLE_EQ(roomOf(problem), 60e9);
  problem.memoryLimit = 70'000'000'000; // more than the margin leaves
  EXPECT_DOUBLE_EQ(roomOf(problem), 60e9);
  problem.memoryLimit = 50'000'000'000; // of the arena, whatever the device has
  EXPECT_DOUBLE_EQ(roomOf(problem), 50e9);
}

TEST(PlanRoom, IsTheLimitOrNothingWhereTheClusterDoesNotSay) {
  Problem problem = problemOf(processors(1), 2);
  problem.cluster.mutable_nodes(0)->set_memory_bytes(0);
  EXPECT_EQ(roomOf(problem), 0);
  problem.memoryLimit = 5;
  EXPECT_EQ(roomOf(problem), 5);
}

TEST(PlanRoom, NeedsAClusterWithAsManyDevices) {
  EXPECT_THAT(test::refusalOf([] { roomOf(problemOf(gpus({4}), 8)); }), HasSubstr("has 8 ranks"));
}

} // namespace
} // namespace dtc::plans
