// What is chosen to be computed again: it fits, costs no more where there is more room, and is what was promised.
#include "passes/pipelines/ChooseRecompute.h"

#include "frontends/Frontend.h"
#include "mlir/IR/DialectRegistry.h"
#include "test/e2e/compiled_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace dtc::test {
namespace {

/// A core.
timing::Device device() {
  timing::Device device;
  timing::Peak &peak = *device.add_peaks();
  peak.set_type("f32");
  peak.set_flops(260e9);
  device.set_memory_bandwidth(38e9);
  device.set_launch_seconds(1e-7);
  return device;
}

class ChooseRecompute : public testing::TestWithParam<Layout> {
protected:
  ChooseRecompute() {
    DialectRegistry registry;
    registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto symbols = smallSymbols("gpt-small");
    symbols["layers"] = 12;
    symbols["embed"] = 64, symbols["head_dim"] = 16, symbols["mlp"] = 256, symbols["positions"] = 64;
    model = load(std::string(DTC_SOURCE_DIR) + "/examples/gpt-small", {16, 64, 0.1, symbols}, context);
    options.what.accumulation = GetParam().accumulation;
    options.where.mesh = GetParam().mesh;
    options.where.strategy = GetParam().strategy;
    planner = Planner::create(*model.module, options);
  }

  uint64_t peakOf(const std::string &way) {
    Choices choices;
    choices.recompute = {{"*", *parseRecomputeRuns(way), ""}};
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    return peakOf(*plan);
  }

  static uint64_t peakOf(const Plan &plan) {
    uint64_t most = 0;
    for (const PlannedRole &role : plan.roles)
      most = std::max(most, role.arena.bytes);
    return most;
  }

  /// Empty where the limit can be met.
  std::string problemAt(uint64_t limit) {
    std::string problem;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
    EXPECT_EQ(failed(chooseRecompute(*planner, {}, limit, device())), !problem.empty());
    return problem;
  }

  MLIRContext context;
  Model model;
  CompileOptions options;
  std::unique_ptr<Planner> planner;
};

TEST_P(ChooseRecompute, FitsAndTakesNoLongerWhereThereIsMoreRoom) {
  ASSERT_TRUE(planner);
  uint64_t most = peakOf("none"), few = peakOf("full");
  ASSERT_LT(few, most);
  double before = std::numeric_limits<double>::infinity();
  constexpr uint64_t limits = 20;
  std::set<std::string> texts;
  for (uint64_t i = 0; i <= limits; ++i) {
    uint64_t limit = few + (most - few) * i / limits;
    FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, {}, limit, device());
    ASSERT_TRUE(succeeded(chosen));
    EXPECT_LE(chosen->bytes, limit);
    EXPECT_LE(chosen->seconds, before);
    EXPECT_GE(chosen->flops, chosen->flopsOfNone);
    before = chosen->seconds;
    texts.insert(chosen->text);
    // It is what it says, also once it has been written down and read again.
    Choices choices;
    choices.recompute = chosen->rules;
    std::optional<Choices> again =
        parseChoices(printChoices(choices, true), "stored", {}, [](const llvm::Twine &text) { FAIL() << text.str(); });
    ASSERT_TRUE(again);
    FailureOr<Plan> plan = planner->plan(*again);
    ASSERT_TRUE(succeeded(plan));
    EXPECT_EQ(peakOf(*plan), chosen->bytes);
  }
  EXPECT_GT(texts.size(), 6U);
  EXPECT_TRUE(texts.contains("12 of 12 layers none"));
}

TEST_P(ChooseRecompute, SaysTheLeastThatCanBeMet) {
  ASSERT_TRUE(planner);
  std::string problem = problemAt(1000);
  ASSERT_THAT(problem, testing::StartsWith("a rank needs at least "));
  uint64_t least = std::stoull(problem.substr(std::string("a rank needs at least ").size()));
  EXPECT_THAT(problem, testing::HasSubstr(std::to_string(least - 1000) + " more than the limit of 1000"));
  EXPECT_EQ(problemAt(least), "");
  EXPECT_NE(problemAt(least - 1), "");
}

/// Of layers [begin, end) of twelve, those of which little is kept.
int64_t fullLayers(const std::vector<RecomputeRule> &rules, int64_t begin, int64_t end) {
  int64_t count = 0, layer = 0;
  for (const RecomputeRun &run : shareOutRuns(rules.back().runs, 12))
    for (int64_t i = 0; i < run.layers; ++i, ++layer)
      count += begin <= layer && layer < end && run.how.kind == abi::Recompute::Kind::Full;
  return count;
}

class RecomputeOfStages : public ChooseRecompute {};

// A stage of few layers keeps what one of many has no room for.
TEST_P(RecomputeOfStages, AreWhatEachNeeds) {
  ASSERT_TRUE(planner);
  Choices choices;
  choices.layers = {9, 3};
  FailureOr<Plan> plan = planner->plan(choices);
  ASSERT_TRUE(succeeded(plan));
  uint64_t first = plan->roles[0].arena.bytes, last = plan->roles[1].arena.bytes;
  ASSERT_GT(first, last);
  FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, choices, (first + last) / 2, device());
  ASSERT_TRUE(succeeded(chosen));
  EXPECT_GT(fullLayers(chosen->rules, 0, 9), 0);
  EXPECT_EQ(fullLayers(chosen->rules, 9, 12), 0);
}

constexpr Layout pipeline{"pipeline", "pp=2", "ddp", 4};
INSTANTIATE_TEST_SUITE_P(Layouts, ChooseRecompute,
                         testing::Values(Layout{"one", "dp=1", "ddp", 1}, Layout{"zero3", "dp=2", "zero3", 2},
                                         Layout{"sequence", "tp=2", "megatron-sp", 1}, pipeline),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Layouts, RecomputeOfStages, testing::Values(pipeline),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
