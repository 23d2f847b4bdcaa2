// Lints on memory: each with a case that fires, one just beyond its threshold that does not, and its remedy applied.
#include "test/tools/dtc/advice/state_program.h"

#include <gmock/gmock.h>

namespace dtc {
namespace {

using namespace advice_test;
using testing::HasSubstr;

//===----------------------------------------------------------------------===//
// needless-recomputation
//===----------------------------------------------------------------------===//

/// Each of two micro-batches recomputes a product of 4 s that writes 100 MB.
abi::Manifest recomputing(int64_t ranks, uint64_t arenaBytes) {
  abi::Manifest program = stateProgram(ranks, arenaBytes);
  program.mutable_training()->set_recompute("full");
  abi::CommandList &list = *program.add_lists();
  list.set_name("backward");
  for (bool isAgain : {true, false}) {
    abi::Command &command = *list.add_commands();
    command.mutable_launch();
    command.set_is_again(isAgain);
    command.mutable_work()->set_kind(abi::Work::PRODUCT);
    command.mutable_work()->set_flops(4e12);
    command.mutable_work()->set_bytes_written(100'000'000);
  }
  abi::Timetable &step = *program.mutable_roles(0)->add_timetables();
  step.set_name("step");
  for (int64_t microBatch : {0, 1}) {
    abi::TimetableEntry &entry = *step.add_period();
    entry.set_list("backward");
    entry.set_micro_batch(microBatch);
  }
  return program;
}

std::optional<Finding> recomputation(const Case &its) {
  return look(memoryLints(), "needless-recomputation", its.facts());
}

TEST(NeedlessRecomputation, IsFoundWithItsTimeAndTheMemoryThatIsFree) {
  std::optional<Finding> finding = recomputation({recomputing(4, 800'000'000), gpus(), 100});
  ASSERT_TRUE(finding);
  EXPECT_NEAR(finding->share, 0.08, 1e-12);
  EXPECT_THAT(finding->text, HasSubstr("8 s of a step of 100 s (8%, more than 3%)"));
  EXPECT_THAT(finding->text, HasSubstr("needs 800 MB of the 1 GB of its G"));
  EXPECT_THAT(finding->text, HasSubstr("at most 100 MB more"));
  EXPECT_THAT(finding->remedy, HasSubstr("--set recompute=cheap, or recompute=auto with --memory-limit 950000000"));
}

TEST(NeedlessRecomputation, OfHardlyAnyTimeIsNot) {
  EXPECT_TRUE(recomputation({recomputing(4, 800'000'000), gpus(), 8 / 0.0301}));
  EXPECT_FALSE(recomputation({recomputing(4, 800'000'000), gpus(), 8 / 0.0299}));
}

// 95% of 1 GB, less what would be kept.
TEST(NeedlessRecomputation, IsNeededWhereMemoryIsFull) {
  EXPECT_TRUE(recomputation({recomputing(4, 849'000'000), gpus(), 100}));
  EXPECT_FALSE(recomputation({recomputing(4, 851'000'000), gpus(), 100}));
}

TEST(NeedlessRecomputation, EachMicroBatchInFlightWouldKeepItsOwn) {
  for (uint64_t arena : {600'000'000U, 700'000'000U}) {
    abi::Manifest program = recomputing(4, arena);
    program.mutable_roles(0)->add_spaces()->set_places(3);
    EXPECT_EQ(recomputation({program, gpus(), 100}).has_value(), arena + 300'000'000 <= 950'000'000) << arena;
  }
}

TEST(NeedlessRecomputation, RanksOfANodeShareItsMemory) {
  EXPECT_TRUE(recomputation({recomputing(2, 370'000'000), processors(), 100}));
  EXPECT_FALSE(recomputation({recomputing(2, 380'000'000), processors(), 100}));
}

TEST(NeedlessRecomputation, IsGoneWhenValuesAreKept) {
  abi::Manifest program = recomputing(4, 900'000'000);
  program.mutable_training()->set_recompute("cheap");
  program.mutable_lists(0)->mutable_commands()->DeleteSubrange(0, 1);
  EXPECT_FALSE(recomputation({program, gpus(), 100}));
}

TEST(NeedlessRecomputation, OfWhatIsCheapHasAnotherRemedy) {
  abi::Manifest program = recomputing(4, 800'000'000);
  program.mutable_training()->set_recompute("cheap");
  program.set_choices("\n[recompute]\n\"h.*\" = \"full\"\n");
  std::optional<Finding> finding = recomputation({program, gpus(), 100});
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, HasSubstr("--set recompute=none"));
  EXPECT_THAT(finding->remedy, HasSubstr("without [recompute] in the choices"));
}

TEST(NeedlessRecomputation, NeedsACluster) {
  abi::Manifest program = recomputing(4, 800'000'000);
  EXPECT_FALSE(look(memoryLints(), "needless-recomputation", {program}));
}

//===----------------------------------------------------------------------===//
// data-parallel-does-not-fit
//===----------------------------------------------------------------------===//

std::optional<Finding> misfit(const abi::Manifest &program, const std::string &cluster = gpus()) {
  return look(memoryLints(), "data-parallel-does-not-fit", Case(program, cluster, 1).facts());
}

// 800 MB of state and 300 MB of other memory. By the table of docs/placement.md: zero1 keeps 200 of parameters and 200
// of gradients, a quarter of 400 and of 200; zero2 a quarter of 600; zero3 a quarter of 800, and two layers of 50.
TEST(DataParallelDoesNotFit, SaysWhatEachStageOfZeroWouldNeed) {
  std::optional<Finding> finding = misfit(stateProgram(4, 1'100'000'000));
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("needs 1.1 GB of the 1 GB of its G"));
  EXPECT_THAT(finding->text, HasSubstr("800 MB of it are state that each of 4 data-parallel ranks holds"));
  EXPECT_THAT(finding->text, HasSubstr("zero1 about 850 MB, zero2 about 650 MB, zero3 about 600 MB"));
  EXPECT_EQ(finding->remedy, "--strategy zero1");
  EXPECT_NEAR(finding->share, 1 - 1 / 1.1, 1e-12);
}

TEST(DataParallelDoesNotFit, ProposesTheSimplestThatFits) {
  // zero1 would need 1.05 GB, zero2 850 MB
  std::optional<Finding> finding = misfit(stateProgram(4, 1'300'000'000));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->remedy, "--strategy zero2");
}

TEST(DataParallelDoesNotFit, ASingleMicroBatchKeepsNoWholeGradients) {
  abi::Manifest program = stateProgram(4, 1'100'000'000);
  program.mutable_training()->set_accumulation(1);
  std::optional<Finding> finding = misfit(program);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("zero1 about 650 MB, zero2 about 650 MB"));
}

TEST(DataParallelDoesNotFit, KeepsTheRestOfTheStrategy) {
  abi::Manifest program = stateProgram(4, 2'000'000'000);
  program.set_strategy("megatron-sp+cp+ddp");
  std::optional<Finding> finding = misfit(program); // zero3 would need 1.5 GB
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, HasSubstr("--strategy megatron-sp+cp+zero3, and in addition"));
}

TEST(DataParallelDoesNotFit, WhatJustFitsIsNot) {
  EXPECT_FALSE(misfit(stateProgram(4, 1'000'000'000)));
  EXPECT_TRUE(misfit(stateProgram(4, 1'000'000'001)));
}

// 800 MB of state are 5% of 16 GB.
TEST(DataParallelDoesNotFit, IsNotTheCauseWhereStateIsAFewPercent) {
  EXPECT_TRUE(misfit(stateProgram(4, 15'900'000'000)));
  EXPECT_FALSE(misfit(stateProgram(4, 16'100'000'000)));
}

TEST(DataParallelDoesNotFit, IsGoneWithTheRemedy) {
  abi::Manifest program = stateProgram(4, 850'000'000);
  program.set_strategy("zero1");
  split(program, abi::Tensor::SLOT, 4);
  EXPECT_FALSE(misfit(program));
}

TEST(DataParallelDoesNotFit, WhatIsSplitAlreadyIsNotSplitAgain) {
  abi::Manifest program = stateProgram(4, 1'100'000'000);
  split(program, abi::Tensor::SLOT, 2); // over neighbouring ranks, as hsdp:2 does
  std::optional<Finding> finding = misfit(program);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("400 MB of it are state"));
  EXPECT_THAT(finding->text, testing::Not(HasSubstr("zero1")));
  for (abi::Tensor::Kind kind : {abi::Tensor::PARAMETER, abi::Tensor::GRADIENT})
    split(program, kind, 2);
  EXPECT_FALSE(misfit(program));
}

TEST(DataParallelDoesNotFit, ASingleRankHasNothingToSplit) { EXPECT_FALSE(misfit(stateProgram(1, 1'100'000'000))); }

TEST(DataParallelDoesNotFit, RanksOfANodeHaveEqualParts) {
  std::optional<Finding> finding = misfit(stateProgram(2, 1'100'000'000), processors());
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("a rank has 500 MB"));
  EXPECT_NEAR(finding->share, 1 - 500 / 1100.0, 1e-12);
}

} // namespace
} // namespace dtc
