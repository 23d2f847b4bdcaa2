// Lints of how the batch is divided: each fires, just does not, and no longer does once its remedy is applied.
#include "test/tools/dtc/advice/hand_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

using testing::HasSubstr;

// batch-smaller-than-dp

constexpr std::string_view smaller = "batch-smaller-than-dp";

/// Four ranks along dp; a step has so many samples and micro-batches. So many of the ranks share the rows of the
/// tokens, and so many their columns.
abi::Manifest dataStep(int64_t batch, int64_t accumulation, int64_t rows, int64_t columns = 1) {
  HandStep step({{"dp", 4}});
  step.role("all").list("step").compute(1);
  step.manifest.mutable_training()->set_global_batch(batch);
  step.manifest.mutable_training()->set_accumulation(accumulation);
  abi::Tensor &tokens = *step.manifest.mutable_roles(0)->add_tensors();
  tokens.set_kind(abi::Tensor::INPUT);
  tokens.mutable_source()->set_kind(abi::Source::TOKENS);
  for (int64_t parts : {rows, columns}) {
    abi::DimSharding &dim = *tokens.mutable_sharding()->add_dims();
    if (parts > 1)
      *dim.add_axes() = wholeAxis("dp", parts);
  }
  return step.manifest;
}

TEST(BatchSmallerThanDpLint, RanksWithoutASampleOfTheirOwnFire) {
  std::optional<Finding> found = look(smaller, dataStep(8, 4, 2));
  ASSERT_TRUE(found) << "2 samples in a micro-batch";
  EXPECT_EQ(found->text,
            "a micro-batch has 2 samples for 4 ranks along dp, which have 2 different parts of it: 2 of them "
            "repeat what others compute");
  EXPECT_EQ(found->remedy, "--set accumulation=2, which gives each rank a sample of every micro-batch");
  EXPECT_DOUBLE_EQ(found->share, 0.5);
  EXPECT_FALSE(look(smaller, dataStep(8, 2, 4))) << "the remedy, and one sample for each rank";
}

TEST(BatchSmallerThanDpLint, ABatchThatIsTooSmallMustGrowOrDpShrink) {
  std::optional<Finding> found = look(smaller, dataStep(2, 1, 2));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "--set global_batch=4, or dp=2 and the other ranks along tp, cp or pp");
  EXPECT_FALSE(look(smaller, dataStep(4, 1, 4))) << "the first remedy";
  found = look(smaller, dataStep(3, 1, 1));
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->share, 0.75) << "three of four compute what the first computes";
}

TEST(BatchSmallerThanDpLint, RanksThatSplitSamplesHaveWork) {
  EXPECT_FALSE(look(smaller, dataStep(2, 1, 1, 4)));
  EXPECT_FALSE(look(smaller, dataStep(2, 1, 2, 2)));
}

// few-micro-batches

constexpr std::string_view few = "few-micro-batches";

/// So many ranks along pp with so many stages, and so many layers, for so many micro-batches of a batch.
abi::Manifest pipelineOf(const std::string &timetable, int64_t ranks, int stages, int64_t microBatches, int64_t batch,
                         int layers = 64) {
  HandStep step({{"pp", ranks}});
  step.role("all").list("step").compute(1);
  step.manifest.set_timetable(timetable);
  for (int stage = 0; stage < stages; ++stage)
    step.manifest.add_stages();
  for (int layer = 0; layer < layers; ++layer)
    step.manifest.add_layers();
  step.manifest.mutable_training()->set_global_batch(batch);
  step.manifest.mutable_training()->set_accumulation(microBatches);
  return step.manifest;
}

TEST(FewMicroBatchesLint, ABubbleOfAQuarterIsJustSmallEnough) {
  // (p - 1) / m: 3 / 11 and 3 / 12.
  std::optional<Finding> found = look(few, pipelineOf("1f1b", 4, 4, 11, 132));
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->share, 3.0 / 14) << "(p - 1) / (m + p - 1) of the step";
  EXPECT_EQ(found->text,
            "with 11 micro-batches a step, 1f1b over 4 ranks is idle for 0.273 of its work, over 0.25, and "
            "21.4% of a step, even where all stages take equally long");
  EXPECT_EQ(found->remedy, "--set accumulation=12, with the same global batch");
  EXPECT_FALSE(look(few, pipelineOf("1f1b", 4, 4, 12, 132))) << "the remedy";
}

TEST(FewMicroBatchesLint, TheTimetableCounts) {
  // (p - 1) / m; divided by the stages of a rank, or by three where weight gradients fill the bubble.
  EXPECT_TRUE(look(few, pipelineOf("1f1b", 4, 4, 8, 8))) << "3 / 8";
  EXPECT_FALSE(look(few, pipelineOf("interleaved", 4, 8, 8, 8))) << "3 / 16";
  EXPECT_TRUE(look(few, pipelineOf("interleaved", 4, 8, 4, 4))) << "3 / 8";
  EXPECT_FALSE(look(few, pipelineOf("zb-h1", 4, 4, 4, 4))) << "3 / 12";
}

TEST(FewMicroBatchesLint, EachRankGetsEquallyManySamples) {
  // Four micro-batches would be enough, but two ranks cannot share their five samples equally.
  HandStep step({{"dp", 2}, {"pp", 2}});
  abi::Manifest program = pipelineOf("1f1b", 2, 2, 2, 20);
  *program.mutable_mesh() = step.manifest.mesh();
  std::optional<Finding> found = look(few, program);
  ASSERT_TRUE(found) << "1 / 2";
  EXPECT_EQ(found->remedy, "--set accumulation=5, with the same global batch");
}

TEST(FewMicroBatchesLint, AnotherTimetableMayDo) {
  std::optional<Finding> found = look(few, pipelineOf("1f1b", 4, 4, 4, 4, /*layers=*/4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "--timetable zb-h1") << "the batch is in as many micro-batches as it can be";
  EXPECT_FALSE(look(few, pipelineOf("zb-h1", 4, 4, 4, 4, 4))) << "the remedy";
}

TEST(FewMicroBatchesLint, OtherwiseTheBatchMustGrow) {
  std::optional<Finding> found = look(few, pipelineOf("1f1b", 4, 4, 1, 1, /*layers=*/4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "--set accumulation=16 --set global_batch=16, or fewer ranks along pp");
  EXPECT_FALSE(look(few, pipelineOf("1f1b", 4, 4, 16, 16, 4))) << "the remedy: 3 / 16";
  // No number of micro-batches helps where each waits for the one before.
  found = look(few, pipelineOf("naive", 4, 4, 1, 1, 4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "--timetable 1f1b --set accumulation=16 --set global_batch=16, or fewer ranks along pp");
}

TEST(FewMicroBatchesLint, WithoutAPipelineThereIsNoBubble) { EXPECT_FALSE(look(few, dataStep(8, 1, 4))); }

TEST(FewMicroBatchesLint, StepsThatOverlapFillIt) {
  abi::Manifest program = pipelineOf("zbv", 4, 8, 2, 2);
  EXPECT_TRUE(look(few, program));
  abi::timetableIn(*program.mutable_roles(0), abi::stepTimetable).mutable_period(0)->set_step(1);
  EXPECT_FALSE(look(few, program));
}

// needless-accumulation

constexpr std::string_view needless = "needless-accumulation";

/// So many micro-batches of three kernels of a second each, the last of them by another list; a rank holds 100 bytes of
/// parameters, their state and gradients, and so many that grow with a micro-batch.
abi::Manifest accumulatingStep(int64_t accumulation, uint64_t activations) {
  HandStep step({{"dp", 2}});
  std::vector<int64_t> further;
  for (int64_t i = 0; i + 1 < accumulation; ++i)
    further.push_back(i);
  step.role("all");
  if (!further.empty())
    step.list("micro", further).compute(1).compute(1).compute(1);
  step.list("micro_last", {accumulation - 1}).compute(1).compute(1).compute(1);
  step.manifest.mutable_training()->set_global_batch(16);
  step.manifest.mutable_training()->set_accumulation(accumulation);
  abi::Role &role = *step.manifest.mutable_roles(0);
  role.set_arena_bytes(100 + activations);
  const std::vector<std::pair<const char *, uint64_t>> uses = {
      {"parameters", 40}, {"optimizer state", 40}, {"gradients", 20}, {"activations and workspace", activations}};
  for (const auto &[category, bytes] : uses) {
    abi::MemoryUse &use = *role.add_memory();
    use.set_category(category);
    use.set_bytes(bytes);
  }
  return step.manifest;
}

/// Devices of 1000 bytes that launch in half a second and read or write 1000 bytes a second.
timing::Cluster roomy() {
  timing::Cluster cluster = timing::unitCluster(2);
  cluster.mutable_devices(0)->set_memory_bytes(1000);
  cluster.mutable_devices(0)->set_memory_bandwidth(1000);
  cluster.mutable_devices(0)->set_launch_seconds(0.5);
  return cluster;
}

TEST(NeedlessAccumulationLint, ABatchThatFitsFires) {
  // 100 + 8 * 100 bytes are nine tenths of the memory.
  std::optional<Finding> found = look(needless, accumulatingStep(8, 100), roomy());
  ASSERT_TRUE(found);
  // Seven further micro-batches: three launches of half a second each, and 20 bytes of gradients read and written
  // again.
  double cost = 7 * (3 * 0.5 + 2 * 20.0 / 1000), step = 8 * 3 * 1.5;
  EXPECT_NEAR(found->share, cost / step, 1e-9);
  EXPECT_THAT(found->text, HasSubstr("8 micro-batches, and its 16 samples fit into one: 900 bytes of 1 kB"));
  EXPECT_EQ(found->remedy, "--set accumulation=1, with the same global batch");
}

TEST(NeedlessAccumulationLint, AByteMoreDoesNotFit) {
  EXPECT_FALSE(look(needless, accumulatingStep(8, 101), roomy())) << "100 + 8 * 101";
  EXPECT_TRUE(look(needless, accumulatingStep(7, 101), roomy()));
}

TEST(NeedlessAccumulationLint, TheRemedyIsOneMicroBatch) {
  EXPECT_FALSE(look(needless, accumulatingStep(1, 800), roomy()));
}

TEST(NeedlessAccumulationLint, WaitsOfEachMicroBatchCount) {
  // Two micro-batches, each of which waits 4 seconds for an all-reduce over dp, as with zero2; one would do that once.
  abi::Manifest program = accumulatingStep(2, 100);
  HandStep moving({{"dp", 2}});
  moving.role("all").list("reduces").reduce("dp", 1, abi::INPUT_GRADIENT);
  *program.mutable_groups() = moving.manifest.groups();
  for (abi::CommandList &list : *program.mutable_lists())
    list.mutable_commands()->MergeFrom(moving.manifest.lists(0).commands());
  std::optional<Finding> found = look(needless, program, roomy());
  ASSERT_TRUE(found);
  double cost = 3 * 0.5 + 2 * 20.0 / 1000 + 4, step = 2 * (3 * 1.5 + 4);
  EXPECT_NEAR(found->share, cost / step, 1e-9);
}

TEST(NeedlessAccumulationLint, APipelineNeedsItsMicroBatches) {
  abi::Manifest program = accumulatingStep(8, 100);
  program.add_stages();
  EXPECT_TRUE(look(needless, program, roomy()));
  program.add_stages();
  EXPECT_FALSE(look(needless, program, roomy()));
}

TEST(NeedlessAccumulationLint, NothingIsKnownWithoutTheMemory) {
  EXPECT_FALSE(look(needless, accumulatingStep(8, 100)));
  EXPECT_FALSE(look(needless, accumulatingStep(8, 100), timing::unitCluster(2))) << "the cluster file does not say";
}

// load-imbalance

constexpr std::string_view imbalance = "load-imbalance";

/// Two ranks that compute so many seconds.
abi::Manifest unevenStep(double first, double second, int stages) {
  HandStep step({{"pp", 2}});
  step.role("stage 0", {0}).list("first").compute(first);
  step.role("stage 1", {1}).list("second").compute(second);
  for (int stage = 0; stage < stages; ++stage)
    step.manifest.add_stages();
  return step.manifest;
}

TEST(LoadImbalanceLint, AVariationOfATwentiethIsEvenEnough) {
  // With 10 ± d the coefficient of variation is d / 10.
  std::optional<Finding> found = look(imbalance, unevenStep(9.4, 10.6, 2), timing::unitCluster(2));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "kernels take unequal times: from 9.4 s (rank 0, stage 0) to 10.6 s (rank 1, stage 1) a step, "
                         "a coefficient of variation of 0.06, over 0.05");
  EXPECT_NEAR(found->share, 0.6 / 10.6, 1e-9) << "the slower one is above the mean for this part of the step";
  EXPECT_FALSE(look(imbalance, unevenStep(9.51, 10.49, 2), timing::unitCluster(2)));
  EXPECT_TRUE(look(imbalance, unevenStep(9.49, 10.51, 2), timing::unitCluster(2)));
}

TEST(LoadImbalanceLint, AnotherCutIsTheRemedy) {
  std::optional<Finding> found = look(imbalance, unevenStep(9, 11, 2), timing::unitCluster(2));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->remedy, HasSubstr("cut the layers otherwise"));
  EXPECT_THAT(found->remedy, testing::Not(HasSubstr("slower devices")));
  EXPECT_FALSE(look(imbalance, unevenStep(10, 10, 2), timing::unitCluster(2))) << "a layer moved";
}

TEST(LoadImbalanceLint, DevicesOfTwoKindsAreSeen) {
  timing::Cluster cluster = nodesOf(1, 1, 1, 1);
  timing::Device slow = cluster.devices(0);
  slow.set_name("slow");
  slow.mutable_peaks(0)->set_flops(0.5);
  *cluster.add_devices() = slow;
  timing::Nodes second = cluster.nodes(0);
  second.set_device("slow");
  *cluster.add_nodes() = second;
  cluster.mutable_levels()->RemoveLast();
  std::optional<Finding> found = look(imbalance, unevenStep(10, 10, 0), cluster);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "give a job devices of one kind, or a pipeline (pp) whose stages are cut by costs");
  found = look(imbalance, unevenStep(10, 10, 2), cluster);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->remedy, HasSubstr("with fewer layers on slower devices"));
  EXPECT_FALSE(look(imbalance, unevenStep(10, 5, 2), cluster)) << "the remedy: half as much on the slower one";
}

} // namespace
} // namespace dtc::test
