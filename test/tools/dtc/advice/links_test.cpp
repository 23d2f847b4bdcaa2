// Lints of what ranks move: each fires, just does not, and no longer does once its remedy is applied.
#include "test/tools/dtc/advice/hand_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

using testing::HasSubstr;
using Axes = std::vector<std::pair<std::string, int64_t>>;

// An all-reduce of M bytes by two ranks over links of B bytes a second takes M / B seconds: each sends M.

// tensor-parallel-over-slow-link

constexpr std::string_view tensor = "tensor-parallel-over-slow-link";

/// Kernels of so many seconds, and an all-reduce of four bytes over tp.
abi::Manifest tensorStep(const Axes &axes, double seconds) {
  HandStep step(axes);
  step.role("all").list("step").compute(seconds).reduce("tp", 1, abi::FORWARD);
  return step.manifest;
}

TEST(TensorParallelLint, AcrossNodesFires) {
  // tp is the first axis, and so the outer one: ranks 0 and 2 are on different nodes. The all-reduce takes 4 seconds.
  std::optional<Finding> found = look(tensor, tensorStep({{"tp", 2}, {"dp", 2}}, 12), nodesOf(2, 2, 16, 1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, tensor);
  EXPECT_DOUBLE_EQ(found->share, 4.0 / 16);
  EXPECT_EQ(found->text,
            "groups of tp=2 cross nodes over outside, where a device has 1 bytes/s (16 bytes/s over inside): "
            "ranks wait for them 4 s of a step of 16 s (25%), over 5%");
  EXPECT_EQ(found->remedy, "put ranks of tp next to each other: --mesh dp=2,tp=2");
}

TEST(TensorParallelLint, TheRemedyMovesItInside) {
  EXPECT_FALSE(look(tensor, tensorStep({{"dp", 2}, {"tp", 2}}, 12), nodesOf(2, 2, 16, 1)));
  // Its all-reduce is as long a part of the step where links within the node are as slow: that is no placement's fault.
  EXPECT_FALSE(look(tensor, tensorStep({{"dp", 2}, {"tp", 2}}, 12), nodesOf(2, 2, 1, 1)));
}

TEST(TensorParallelLint, WaitingForATwentiethIsNotNotable) {
  // 4 / (4 + 76) is a twentieth.
  EXPECT_TRUE(look(tensor, tensorStep({{"tp", 2}, {"dp", 2}}, 75), nodesOf(2, 2, 16, 1)));
  EXPECT_FALSE(look(tensor, tensorStep({{"tp", 2}, {"dp", 2}}, 77), nodesOf(2, 2, 16, 1)));
}

/// A node of two pairs of devices.
timing::Cluster pairs(double within, double between) {
  timing::Cluster cluster = nodesOf(1, 4, within, between);
  cluster.mutable_levels(0)->set_units(2);
  return cluster;
}

TEST(TensorParallelLint, ALinkIsSlowBelowAQuarterOfTheInnermost) {
  std::optional<Finding> found = look(tensor, tensorStep({{"tp", 4}}, 1), pairs(16, 3.9));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("groups of tp=4 cross outside"));
  EXPECT_EQ(found->remedy, "take tp=2 and 2 times as many ranks along pp or dp");
  EXPECT_FALSE(look(tensor, tensorStep({{"tp", 4}}, 1), pairs(16, 4)));
  EXPECT_FALSE(look(tensor, tensorStep({{"dp", 2}, {"tp", 2}}, 1), pairs(16, 3.9))) << "the remedy";
}

TEST(TensorParallelLint, ALinkThatDevicesShareIsSlower) {
  timing::Cluster shared = pairs(16, 7);
  EXPECT_FALSE(look(tensor, tensorStep({{"tp", 4}}, 1), shared));
  shared.mutable_levels(1)->set_shared_by(2); // 3.5 for each of the two devices of a pair
  EXPECT_TRUE(look(tensor, tensorStep({{"tp", 4}}, 1), shared));
}

TEST(TensorParallelLint, NodesOfOneDeviceHaveNoPlaceForIt) {
  timing::Cluster cluster = timing::unitCluster(1);
  cluster.mutable_nodes(0)->set_count(2);
  std::optional<Finding> found = look(tensor, tensorStep({{"tp", 2}}, 1), cluster);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "take dp with zero3, or pp, in place of tp");
  HandStep data({{"dp", 2}});
  data.role("all").list("step").compute(1).reduce("dp", 1);
  EXPECT_FALSE(look(tensor, data.manifest, cluster)) << "the remedy";
}

TEST(TensorParallelLint, SumsOverAllRanksAreNotItsFault) {
  // As of the gradients' norm: they cross nodes however ranks are placed.
  HandStep step({{"dp", 2}, {"tp", 2}});
  step.role("all").list("step").compute(1).reduce("tp", 1, abi::FORWARD).reduce("all", 1);
  EXPECT_FALSE(look(tensor, step.manifest, nodesOf(2, 2, 16, 1)));
}

TEST(TensorParallelLint, NothingIsKnownWithoutACluster) {
  EXPECT_FALSE(look(tensor, tensorStep({{"tp", 2}, {"dp", 2}}, 12)));
}

// exposed-communication

constexpr std::string_view exposed = "exposed-communication";

/// Two ranks, kernels of so many seconds, and an all-reduce of four bytes, or two, which takes as many seconds.
abi::Manifest exposedStep(double seconds, abi::DataType type = abi::F32) {
  HandStep step({{"dp", 2}});
  step.role("all").list("step").compute(seconds).reduce("dp", 1, abi::UPDATE, 1, type);
  step.manifest.mutable_training()->set_compute("bf16");
  step.manifest.mutable_training()->set_gradients(type == abi::F32 ? "f32" : "bf16");
  return step.manifest;
}

TEST(ExposedCommunicationLint, AFifthOfTheStepIsMuch) {
  // 4 / (4 + 16) is a fifth.
  std::optional<Finding> found = look(exposed, exposedStep(15), timing::unitCluster(2));
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->share, 4.0 / 19);
  EXPECT_EQ(found->text,
            "communication is exposed for 4 s of a step of 19 s (21.1%), over 20%; a rank waits longest for "
            "all_reduce over dp once a step, 4 s");
  EXPECT_EQ(found->remedy, "send gradients in 16 bits (--set gradients=bf16), or compute more samples a step");
  EXPECT_TRUE(look(exposed, exposedStep(15.9), timing::unitCluster(2)));
  EXPECT_FALSE(look(exposed, exposedStep(16.1), timing::unitCluster(2)));
}

TEST(ExposedCommunicationLint, HalfOfTheStepIsMostOfIt) {
  EXPECT_THAT(look(exposed, exposedStep(3.9), timing::unitCluster(2))->text,
              HasSubstr("over 50%: it is most of the step"));
  EXPECT_THAT(look(exposed, exposedStep(4.1), timing::unitCluster(2))->text, HasSubstr("over 20%; a rank"));
}

TEST(ExposedCommunicationLint, TheRemedyMovesHalfTheBytes) {
  EXPECT_FALSE(look(exposed, exposedStep(15, abi::BF16), timing::unitCluster(2))) << "2 / 17";
  std::optional<Finding> found = look(exposed, exposedStep(3, abi::BF16), timing::unitCluster(2));
  ASSERT_TRUE(found) << "2 / 5";
  EXPECT_EQ(found->remedy, "compute more samples a step: what moves once a step stays the same");
  EXPECT_FALSE(look(exposed, exposedStep(9, abi::BF16), timing::unitCluster(2))) << "three times as many: 2 / 11";
}

TEST(ExposedCommunicationLint, WhatSlowsKernelsDownCountsToo) {
  // The kernel is beside the all-reduce, and the processor moves for half of its 4 seconds.
  HandStep step({{"dp", 2}});
  step.role("all").list("step").reduce("dp", 1);
  abi::CommandList &list = *step.manifest.mutable_lists(0);
  step.compute(4);
  list.mutable_commands()->SwapElements(1, 2); // start, launch, wait
  EXPECT_FALSE(look(exposed, step.manifest, timing::unitCluster(2))) << "hidden";
  std::optional<Finding> found = look(exposed, step.manifest, timing::unitCluster(2, 0, 0.5));
  ASSERT_TRUE(found) << "2 of 6 seconds";
  EXPECT_NEAR(found->share, 1.0 / 3, 1e-9);
  EXPECT_EQ(found->remedy, "start fewer ranks on a node, so that some of its cores are free to move data");
}

TEST(ExposedCommunicationLint, TheCauseThatRanksWaitForLongestDecides) {
  HandStep step({{"dp", 2}, {"tp", 2}});
  step.role("all").list("step").compute(1).reduce("tp", 2, abi::FORWARD).reduce("dp", 1);
  std::optional<Finding> found = look(exposed, step.manifest, timing::unitCluster(4));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("a rank waits longest for all_reduce over tp within passes, 8 s"));
  EXPECT_EQ(found->remedy, "take fewer ranks along tp, and more along dp or pp");
}

TEST(ExposedCommunicationLint, WithinPassesTheAxisDecides) {
  HandStep context({{"dp", 2}, {"cp", 2}});
  context.role("all").list("step").compute(1).reduce("cp", 2, abi::FORWARD);
  std::optional<Finding> found = look(exposed, context.manifest, timing::unitCluster(4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "take fewer ranks along cp, and more along dp or pp");
  HandStep zero({{"dp", 2}, {"cp", 2}});
  zero.role("all").list("step").compute(1).reduce("dp", 2, abi::FORWARD);
  found = look(exposed, zero.manifest, timing::unitCluster(4));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->remedy, HasSubstr("moves less over dp in each micro-batch (zero1 in place of zero2 or zero3"));
}

// What u sqrt(p) / 3 allows bf16: 58 ranks.
TEST(ExposedCommunicationLint, SixteenBitsAreNoRemedyWhereTheirSumsAreTooInexact) {
  for (auto [ranks, isProposed] : {std::pair(58, true), std::pair(59, false)}) {
    HandStep step({{"dp", ranks}});
    step.role("all").list("step").compute(1).reduce("dp", ranks);
    step.manifest.mutable_training()->set_compute("bf16");
    step.manifest.mutable_training()->set_gradients("f32");
    step.manifest.set_target("cuda:sm_90");
    std::optional<Finding> found = look(exposed, step.manifest, timing::unitCluster(ranks));
    ASSERT_TRUE(found) << ranks;
    EXPECT_EQ(found->remedy.find("16 bits") != std::string::npos, isProposed) << found->remedy;
  }
}

// small-messages

constexpr std::string_view small = "small-messages";

/// So many all-reduces of so many elements, each in so many parts, and kernels of so many seconds. On links with a
/// latency of 1 s and 8 bytes a second, one of 4 n bytes takes 1 + n / 2 seconds by recursive doubling.
abi::Manifest smallStep(int count, int64_t elements, int parts, double seconds) {
  HandStep step({{"dp", 2}});
  step.role("all").list("step").compute(seconds);
  for (int i = 0; i < count; ++i)
    step.reduce("dp", elements, abi::UPDATE, parts);
  step.manifest.mutable_training()->set_bucket_bytes("none");
  return step.manifest;
}

timing::Cluster latent() {
  timing::Cluster cluster = timing::unitCluster(2, /*latency=*/1);
  cluster.mutable_levels(0)->set_bandwidth(8);
  return cluster;
}

TEST(SmallMessagesLint, ManyOfThemFire) {
  std::optional<Finding> found = look(small, smallStep(10, 1, 1, 85), latent());
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->share, 15.0 / 100, 1e-9);
  EXPECT_EQ(found->text,
            "a rank takes part in 10 collectives of at most 4 bytes whose time is mostly latency, and waits "
            "for them 15 s of a step of 100 s (15%), over 5%");
  EXPECT_EQ(found->remedy, "join them: --set bucket_bytes=auto");
}

TEST(SmallMessagesLint, WaitingForATwentiethIsNotNotable) {
  // 15 / (15 + 285) is a twentieth.
  EXPECT_TRUE(look(small, smallStep(10, 1, 1, 284), latent()));
  EXPECT_FALSE(look(small, smallStep(10, 1, 1, 286), latent()));
}

TEST(SmallMessagesLint, HalfOfTheTimeIsNotMostOfIt) {
  EXPECT_FALSE(look(small, smallStep(10, 2, 1, 1), latent())) << "1 s of 2";
  EXPECT_TRUE(look(small, smallStep(10, 1, 1, 1), latent())) << "1 s of 1.5";
}

TEST(SmallMessagesLint, TheRemedyJoinsThem) {
  EXPECT_FALSE(look(small, smallStep(1, 1, 10, 85), latent())) << "one bucket: 1 s of 6";
}

TEST(SmallMessagesLint, WhatItSaysIsNotSaidAgain) {
  EXPECT_TRUE(look(small, smallStep(10, 1, 1, 30), latent())) << "15 s of 45";
  EXPECT_FALSE(look(exposed, smallStep(10, 1, 1, 30), latent())) << "nothing else is exposed";
  // Also one of 48 elements, which is not small: 25 s. Then 15 + 25 s of 80 are exposed, and at 85 s it is a fifth.
  auto both = [](double seconds) {
    abi::Manifest program = smallStep(11, 1, 1, seconds);
    for (abi::Command &command : *program.mutable_lists(0)->mutable_commands())
      if (command.has_start() && command.start().token() == 10)
        command.mutable_start()->set_chunk(48);
    return program;
  };
  EXPECT_TRUE(look(small, both(40), latent()));
  EXPECT_TRUE(look(exposed, both(40), latent())) << "25 s of 80";
  EXPECT_TRUE(look(exposed, both(84), latent())) << "25 s of 124";
  EXPECT_FALSE(look(exposed, both(86), latent())) << "25 s of 126";
}

TEST(SmallMessagesLint, WhatTensorParallelismSaysIsNotSaidAgain) {
  timing::Cluster cluster = nodesOf(2, 2, 16, 8);
  cluster.mutable_levels(1)->set_latency(1); // 1.5 s, of which 1 s is latency
  abi::Manifest program = tensorStep({{"tp", 2}, {"dp", 2}}, 1);
  EXPECT_TRUE(look(tensor, program, cluster));
  EXPECT_FALSE(look(small, program, cluster));
  EXPECT_FALSE(look(exposed, program, cluster));
  program = tensorStep({{"dp", 2}, {"tp", 2}}, 1); // within the node: a quarter of a second
  EXPECT_FALSE(look(tensor, program, cluster));
  cluster.mutable_levels(0)->set_latency(1);
  EXPECT_TRUE(look(small, program, cluster)) << "1 s of 1.25, at its place";
}

// groups-against-topology

constexpr std::string_view groups = "groups-against-topology";

/// Two stages, each on two ranks: the gradients of all of them are reduced over dp, and a message goes each way.
abi::Manifest pipelineStep(const Axes &axes, double seconds, int64_t gradients, int64_t sent) {
  HandStep step(axes);
  bool isLast = axes.back().first == "pp";
  step.role("stage 0", isLast ? std::vector<uint32_t>{0, 2} : std::vector<uint32_t>{0, 1});
  step.list("first").compute(seconds).send("pp", 1, sent).receive("pp", 1, sent).reduce("dp", gradients);
  step.role("stage 1", isLast ? std::vector<uint32_t>{1, 3} : std::vector<uint32_t>{2, 3});
  step.list("second").receive("pp", -1, sent).compute(seconds).send("pp", -1, sent).reduce("dp", gradients);
  return step.manifest;
}
const Axes stagesInside = {{"dp", 2}, {"pp", 2}}, dataInside = {{"pp", 2}, {"dp", 2}};

TEST(GroupsLint, HeavyTrafficOutsideFires) {
  std::optional<Finding> found = look(groups, pipelineStep(stagesInside, 10, 16, 1), nodesOf(2, 2, 16, 1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "with the axes pp, dp from the inside outwards a rank sends 64 bytes a step to other nodes, and "
            "with dp, pp 4 bytes: 60 s less of its link's time, over 1% of a step");
  EXPECT_EQ(found->remedy, "--mesh pp=2,dp=2");
  EXPECT_FALSE(look(groups, pipelineStep(dataInside, 10, 16, 1), nodesOf(2, 2, 16, 1))) << "the remedy";
}

TEST(GroupsLint, TheClusterFileSaysTheOrder) {
  timing::Cluster cluster = nodesOf(2, 2, 16, 1);
  cluster.add_axis_order("pp");
  std::optional<Finding> found = look(groups, pipelineStep(dataInside, 10, 16, 1), cluster);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy,
            "place the ranks in that order, with axis_order: \"dp\" axis_order: \"pp\" in the cluster file");
  cluster.clear_axis_order();
  cluster.add_axis_order("dp");
  cluster.add_axis_order("pp");
  EXPECT_FALSE(look(groups, pipelineStep(dataInside, 10, 16, 1), cluster)) << "the remedy";
}

TEST(GroupsLint, ATenthFewerBytesIsAsGood) {
  // Of 80 bytes nine tenths are 72, which is 18 elements.
  EXPECT_TRUE(look(groups, pipelineStep(stagesInside, 10, 20, 17), nodesOf(2, 2, 16, 1)));
  EXPECT_FALSE(look(groups, pipelineStep(stagesInside, 10, 20, 19), nodesOf(2, 2, 16, 1)));
}

TEST(GroupsLint, WhatIsHardlySentNeedNotBePlacedWell) {
  // 60 seconds are a hundredth of 6000. A rank of either stage computes, and the other waits: the step has twice the
  // seconds, 64 for the gradients, and half a second for two messages within the node.
  EXPECT_TRUE(look(groups, pipelineStep(stagesInside, 2960, 16, 1), nodesOf(2, 2, 16, 1)));
  EXPECT_FALSE(look(groups, pipelineStep(stagesInside, 2975, 16, 1), nodesOf(2, 2, 16, 1)));
}

TEST(GroupsLint, WhatTensorParallelismSaysIsNotSaidAgain) {
  abi::Manifest program = tensorStep({{"tp", 2}, {"dp", 2}}, 12);
  EXPECT_TRUE(look(tensor, program, nodesOf(2, 2, 16, 1)));
  EXPECT_FALSE(look(groups, program, nodesOf(2, 2, 16, 1)));
  // Where ranks wait less than a twentieth for tp, only the order is wrong: 4 s of 104 s.
  program = tensorStep({{"tp", 2}, {"dp", 2}}, 100);
  EXPECT_FALSE(look(tensor, program, nodesOf(2, 2, 16, 1)));
  EXPECT_TRUE(look(groups, program, nodesOf(2, 2, 16, 1)));
}

/// Two nodes of four devices. The second axis is inside: a node has two ranks of each group of dp.
abi::Manifest twoAxes(const std::string &second) {
  HandStep step({{"dp", 4}, {second, 2}});
  step.role("all").list("step").compute(1).reduce("dp", 16).reduce(second, 4);
  return step.manifest;
}

TEST(GroupsLint, MembersOfANodeSendTheirShare) {
  // An all-reduce of 64 bytes: what two nodes exchange is 64 bytes, half of it by each member. With dp inside, the one
  // of 16 bytes crosses nodes, with one member on each.
  std::optional<Finding> found = look(groups, twoAxes("cp"), nodesOf(2, 4, 16, 1));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("with the axes cp, dp from the inside outwards a rank sends 32 bytes a step to "
                                     "other nodes, and with dp, cp 16 bytes: 16 s less"));
}

TEST(GroupsLint, TensorParallelismIsNotMovedOut) {
  abi::Manifest program = twoAxes("tp");
  EXPECT_FALSE(look(groups, program, nodesOf(2, 4, 16, 1)));
  // Nor where a sum over all ranks crosses nodes anyway.
  HandStep step({{"dp", 4}, {"tp", 2}});
  step.role("all").list("step").compute(1).reduce("dp", 16).reduce("tp", 4).reduce("all", 1);
  EXPECT_FALSE(look(groups, step.manifest, nodesOf(2, 4, 16, 1)));
}

} // namespace
} // namespace dtc::test
