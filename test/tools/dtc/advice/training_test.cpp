// Lints on what training learns and on failures: each with a case that fires, one just beyond its threshold that does
// not, and its remedy applied.
#include "runtime/abi/groups.h"
#include "runtime/abi/random.h"
#include "test/tools/dtc/advice/state_program.h"
#include "tools/dtc/advice/CheckpointInterval.h"
#include "tools/dtc/advice/Sequences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace dtc {
namespace {

using namespace advice_test;
using testing::ElementsAre;
using testing::HasSubstr;

//===----------------------------------------------------------------------===//
// learning-rate-not-scaled
//===----------------------------------------------------------------------===//

/// 0.1 was right for 128 samples.
std::optional<Finding> rate(const std::string &optimizer, int64_t batch, double value) {
  abi::Manifest program = stateProgram(4, 0);
  program.mutable_training()->set_optimizer(optimizer);
  program.mutable_training()->set_global_batch(batch);
  program.mutable_training()->set_learning_rate(value);
  return look(trainingLints(), "learning-rate-not-scaled",
              {.program = program, .referenceBatch = 128, .referenceRate = 0.1});
}

TEST(LearningRateNotScaled, SgdScalesWithTheBatch) {
  std::optional<Finding> finding = rate("sgd", 512, 0.1);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("to 0.4, and 0.1 is off by a factor of 4, more than 1.5"));
  EXPECT_THAT(finding->remedy, HasSubstr("--set learning_rate=0.4"));
  EXPECT_THAT(finding->remedy, HasSubstr("warmup_steps"));
  EXPECT_NEAR(finding->share, 0.75, 1e-12);
}

TEST(LearningRateNotScaled, AdamScalesWithItsRoot) {
  std::optional<Finding> finding = rate("adamw", 2048, 0.1);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("the square root of the batch, to 0.4"));
  EXPECT_THAT(finding->remedy, HasSubstr("--set learning_rate=0.4"));
}

TEST(LearningRateNotScaled, IsWithinAFactorOfOneAndAHalf) {
  for (double off : {1.49, 1 / 1.49}) {
    EXPECT_FALSE(rate("sgd", 512, 0.4 * off)) << off;
    EXPECT_FALSE(rate("adamw", 512, 0.2 * off)) << off;
  }
  for (double off : {1.51, 1 / 1.51}) {
    EXPECT_TRUE(rate("sgd", 512, 0.4 * off)) << off;
    EXPECT_TRUE(rate("adamw", 512, 0.2 * off)) << off;
  }
}

TEST(LearningRateNotScaled, IsGoneWithTheRemedy) {
  EXPECT_FALSE(rate("sgd", 512, 0.4));
  EXPECT_FALSE(rate("adamw", 2048, 0.4));
  EXPECT_FALSE(rate("sgd", 32, 0.025));
}

TEST(LearningRateNotScaled, ASmallerBatchNeedsNoWarmup) {
  std::optional<Finding> finding = rate("sgd", 32, 0.1);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->remedy, "--set learning_rate=0.025");
}

TEST(LearningRateNotScaled, NeedsAReference) {
  abi::Manifest program = stateProgram(4, 0);
  program.mutable_training()->set_learning_rate(100);
  EXPECT_FALSE(look(trainingLints(), "learning-rate-not-scaled", {program}));
  EXPECT_FALSE(look(trainingLints(), "learning-rate-not-scaled", {.program = program, .referenceBatch = 1}));
}

//===----------------------------------------------------------------------===//
// sums-in-16-bits
//===----------------------------------------------------------------------===//

abi::Manifest summing(abi::DataType type, int64_t ranks) {
  abi::Manifest program = stateProgram(ranks, 0);
  abi::AxisRefs axes;
  *axes.Add() = axisRef("dp", ranks);
  abi::addGroup(program, axes);
  abi::Command &command = *program.add_lists()->add_commands();
  command.set_direction(abi::WEIGHT_GRADIENT);
  command.mutable_start()->set_kind(abi::Collective::REDUCE_SCATTER);
  command.mutable_start()->set_type(type);
  return program;
}

std::optional<Finding> sums(const abi::Manifest &program) {
  return look(trainingLints(), "sums-in-16-bits", {program});
}

// u sqrt(p) / 3 > 0.01 with u = 2^-8: p > 58.98; with u = 2^-11: p > 3774.9.
TEST(SumsInSixteenBits, AreFoundFromTheNumberOfRanksOnAtWhichTheErrorIsAPercent) {
  std::optional<Finding> finding = sums(summing(abi::BF16, 59));
  ASSERT_TRUE(finding);
  EXPECT_NEAR(finding->share, 0.010001, 1e-6);
  EXPECT_THAT(finding->text, HasSubstr("summed in bf16 over 59 ranks (dp)"));
  EXPECT_THAT(finding->text, HasSubstr("off by about 1%"));
  EXPECT_THAT(finding->remedy, HasSubstr("--set gradients=f32"));
  EXPECT_FALSE(sums(summing(abi::BF16, 58)));
  EXPECT_TRUE(sums(summing(abi::F16, 3775)));
  EXPECT_FALSE(sums(summing(abi::F16, 3774)));
}

TEST(SumsInSixteenBits, AreGoneWithTheRemedy) { EXPECT_FALSE(sums(summing(abi::F32, 1024))); }

TEST(SumsInSixteenBits, ProcessorsAddInThirtyTwo) {
  abi::Manifest program = summing(abi::BF16, 1024);
  program.set_target("x86-64-v4");
  EXPECT_FALSE(sums(program));
}

TEST(SumsInSixteenBits, WhatIsMovedIsNotSummed) {
  abi::Manifest program = summing(abi::BF16, 1024);
  abi::Command &command = *program.mutable_lists(0)->mutable_commands(0);
  command.mutable_start()->set_kind(abi::Collective::ALL_GATHER);
  EXPECT_FALSE(sums(program));
  command.mutable_start()->set_kind(abi::Collective::ALL_REDUCE);
  EXPECT_TRUE(sums(program));
  command.mutable_start()->set_reduction(abi::MAX);
  EXPECT_FALSE(sums(program));
  command.mutable_start()->set_reduction(abi::SUM);
  command.set_direction(abi::FORWARD);
  EXPECT_FALSE(sums(program)) << "of activations";
}

//===----------------------------------------------------------------------===//
// checkpoint-interval
//===----------------------------------------------------------------------===//

// The exact optimum solves exp((T + C) / M) (1 - T / M) = 1: by bisection.
TEST(CheckpointInterval, IsDalysWhichIsCloseToTheExactOptimum) {
  EXPECT_NEAR(bestInterval(10, 1e5), 1407.5547673, 1e-3);
  EXPECT_NEAR(bestInterval(300, 86400), 7001.4044, 0.05);
  EXPECT_NEAR(bestInterval(60, 3600), 617.8906, 0.05);
  EXPECT_EQ(bestInterval(200, 100), 100);
  EXPECT_NEAR(bestInterval(1, 1e6) / std::sqrt(2e6), 1, 1e-3) << "Young's";
}

TEST(CheckpointInterval, ARunWithFailuresIsLonger) {
  EXPECT_NEAR(timeWithFailures(10, {1, 0}, 100), 1.1627807, 1e-7); // 10 (exp(0.11) - 1)
  EXPECT_DOUBLE_EQ(CheckpointCost({2, 5}).at(3), 4) << "the next waits until the last is on disk";
  EXPECT_DOUBLE_EQ(CheckpointCost({2, 5}).at(6), 2);
}

/// A step takes 10 s. 600 MB of parameters and slots; four ranks copy 150 MB each to their host at 15 MB/s, in 10 s. A
/// node fails once in 1e5 s.
std::optional<Finding> interval(int64_t every, double step = 10, int nodes = 1,
                                const std::string &deviceFields = "host_bandwidth: 15e6",
                                const std::string &fields = "failure_seconds: 1e5") {
  abi::Manifest program = stateProgram(4 * nodes, 0);
  program.mutable_training()->set_checkpoint_every(every);
  return look(trainingLints(), "checkpoint-interval", Case(program, gpus(nodes, deviceFields, fields), step).facts());
}

TEST(CheckpointInterval, OnlyAtTheEndLosesAlmostAll) {
  std::optional<Finding> finding = interval(0); // 1e6 s: ten failures
  ASSERT_TRUE(finding);
  EXPECT_GT(finding->share, 0.99);
  EXPECT_THAT(finding->text, HasSubstr("only at the end (11.6 days), and a failure every 27.8 h (1 node"));
  EXPECT_THAT(finding->text, HasSubstr("600 MB of state stop training for 10 s"));
  // 1407.55 s, in whole steps
  EXPECT_THAT(finding->remedy, HasSubstr("--set checkpoint_every=141"));
}

TEST(CheckpointInterval, IsGoneWithTheRemedy) { EXPECT_FALSE(interval(141)); }

// 1% of a run: from 45 steps downwards, and from 437 upwards.
TEST(CheckpointInterval, MayBeSomewhatOff) {
  EXPECT_TRUE(interval(45));
  EXPECT_FALSE(interval(46));
  EXPECT_FALSE(interval(436));
  EXPECT_TRUE(interval(437));
}

TEST(CheckpointInterval, MoreNodesFailMoreOften) {
  std::optional<Finding> finding = interval(0, 10, 2); // 5 s of copying, a failure every 5e4 s: 703.8 s
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("a failure every 13.9 h (2 nodes"));
  EXPECT_THAT(finding->remedy, HasSubstr("--set checkpoint_every=71"));
}

// Copies take 15 us, so that 0.55 s would be best; but the checkpoint is on disk after 0.6 s.
TEST(CheckpointInterval, IsNoShorterThanWritingTakes) {
  std::optional<Finding> finding = interval(0, 0.01, 1, "host_bandwidth: 1e13", "failure_seconds: 1e4");
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, HasSubstr("--set checkpoint_every=60"));
}

// Writing 600 MB takes 0.6 s of the cores that compute: 346.01 s.
TEST(CheckpointInterval, OnProcessorsWritingTakesTheirTime) {
  abi::Manifest program = stateProgram(2, 0);
  std::optional<Finding> finding =
      look(trainingLints(), "checkpoint-interval", Case(program, processors("failure_seconds: 1e5"), 10).facts());
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, HasSubstr("--set checkpoint_every=35"));
}

TEST(CheckpointInterval, NeedsToKnowHowOftenNodesFail) { EXPECT_FALSE(interval(0, 10, 1, "host_bandwidth: 15e6", "")); }

//===----------------------------------------------------------------------===//
// uneven-sequences
//===----------------------------------------------------------------------===//

TEST(AttentionOfWindows, IsTheSumOfTheSquaresOfWhatIsInThem) {
  std::vector<double> documents = {3, 5, 4};
  // 3 and 1 | 4 | 4, whose window would need a thirteenth token
  EXPECT_THAT(attentionOfWindows(documents, 4), ElementsAre(10, 16));
  EXPECT_THAT(attentionOfWindows(documents, 4, 0.5), ElementsAre(10)) << "six tokens are held out";
  EXPECT_TRUE(attentionOfWindows({}, 4).empty());
}

TEST(AttentionSpread, OfTwoRanksWithASampleEach) {
  std::vector<double> documents = {4, 1, 1, 1, 1, 1};
  AttentionSpread spread = attentionSpread(documents, {.sequence = 4, .batch = 2, .ranks = 2});
  EXPECT_EQ(spread.steps, 1);
  EXPECT_NEAR(spread.variation, 0.6, 1e-12); // 16 and 4: 6 of 10
  EXPECT_NEAR(spread.excess, 0.6, 1e-12);
  EXPECT_EQ(attentionSpread(documents, {.sequence = 4, .batch = 1, .ranks = 2}).steps, 0);
}

/// 4000 documents of 16 to 240 tokens.
std::vector<size_t> corpus() {
  std::vector<size_t> lengths;
  for (uint32_t i = 1; i <= 4000; ++i)
    lengths.push_back(16 * (1 + (random::mix(i) >> 8) % 15));
  return lengths;
}

std::vector<double> asTokens(const std::vector<size_t> &lengths) { return {lengths.begin(), lengths.end()}; }

TEST(PackedByAttention, IsWhatPackingWouldWrite) {
  std::vector<double> documents = {4, 4, 2, 2, 2, 2, 11};
  // the eleven are cut into eight and three: 27 tokens in four samples
  std::vector<double> packed = packedByAttention(documents, 8);
  EXPECT_EQ(std::accumulate(packed.begin(), packed.end(), 0.0), 4 * 8 + 1);
  EXPECT_EQ(std::ranges::count(packed, 8.0), 1);
}

// A second implementation of docs/data.md, in Python, gave these figures.
TEST(AttentionSpread, HandsOutSamplesAsTheRuntimeDoes) {
  std::vector<double> documents = asTokens(corpus());
  AttentionSpread spread = attentionSpread(documents, {.sequence = 512, .batch = 32, .ranks = 8});
  EXPECT_NEAR(spread.variation, 0.07915505315998715, 1e-9);
  EXPECT_NEAR(spread.excess, 0.12117278744800213, 1e-9);
  EXPECT_EQ(spread.steps, 31);
  spread = attentionSpread(documents, {.sequence = 512, .batch = 32, .microBatches = 2, .ranks = 8});
  EXPECT_NEAR(spread.variation, 0.07695380224346573, 1e-9);
  spread = attentionSpread(documents, {.sequence = 512, .batch = 32, .ranks = 8, .heldOut = 0.25, .seed = 7});
  EXPECT_NEAR(spread.variation, 0.08174272599763577, 1e-9);
}

std::optional<Finding> sequences(int64_t batch, const std::vector<double> &documents, bool separate = true) {
  abi::Manifest program = stateProgram(8, 0);
  abi::Training &training = *program.mutable_training();
  training.set_global_batch(batch);
  training.set_accumulation(1);
  training.set_separate_documents(separate);
  timing::Forecast forecast;
  forecast.seconds = 10;
  forecast.kernels[abi::Work::ATTENTION] = 2;
  AdviceFacts facts{program};
  facts.forecast = &forecast;
  facts.sampleTokens = documents;
  return look(trainingLints(), "uneven-sequences", facts);
}

TEST(UnevenSequences, AreFoundWithTheSpreadOverRanks) {
  std::optional<Finding> finding = sequences(32, asTokens(corpus()));
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("over 31 steps its coefficient of variation is 0.079, more than 0.05"));
  EXPECT_THAT(finding->text, HasSubstr("12.1% more than the mean; attention is 20% of a step"));
  EXPECT_THAT(finding->remedy, testing::EndsWith("--sequence-length 512 --balance attention"));
  EXPECT_NEAR(finding->share, 0.2 * 0.12117278744800213, 1e-12);
}

// Nine samples a rank: 0.0540; ten: 0.0485.
TEST(UnevenSequences, EvenOutOverManySamples) {
  EXPECT_TRUE(sequences(72, asTokens(corpus())));
  EXPECT_FALSE(sequences(80, asTokens(corpus())));
}

// 0.0115, by the second implementation.
TEST(UnevenSequences, AreGoneWithTheRemedy) {
  std::vector<double> packed = packedByAttention(asTokens(corpus()), 512);
  EXPECT_NEAR(attentionSpread(packed, {.sequence = 512, .batch = 32, .ranks = 8}).variation, 0.011492631068517388,
              1e-9);
  EXPECT_FALSE(sequences(32, packed));
}

// Every eighth document fills a sample: it costs 512^2, and a sample of documents of 32 tokens 16 * 32^2, a sixteenth.
TEST(UnevenSequences, OfDocumentsThatFillASampleNeedMoreSamples) {
  std::vector<double> documents;
  for (int i = 0; i < 4000; ++i)
    documents.push_back(i % 8 == 0 ? 512 : 32);
  std::optional<Finding> finding = sequences(32, documents);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, HasSubstr("more samples on each rank"));
  EXPECT_THAT(finding->remedy, HasSubstr("fill samples alone"));
}

// `dtc data pack` refuses a document that is longer than a sample.
TEST(UnevenSequences, OfDocumentsThatDoNotFitAreCutFirst) {
  std::vector<double> documents = asTokens(corpus());
  documents.push_back(513);
  std::optional<Finding> finding = sequences(32, documents);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->remedy, testing::EndsWith("--balance attention, once 1 document of more tokens is cut"));
}

TEST(UnevenSequences, CostTheSameWhereDocumentsSeeEachOther) {
  EXPECT_FALSE(sequences(32, asTokens(corpus()), /*separate=*/false));
  EXPECT_FALSE(sequences(32, {})) << "no data were named";
}

} // namespace
} // namespace dtc
