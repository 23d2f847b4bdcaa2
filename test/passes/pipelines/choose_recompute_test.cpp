// The choice of what to recompute: it fits, costs no more where there is more room, and keeps its promise.
#include "passes/pipelines/search/ChooseRecompute.h"
#include "passes/pipelines/search/RecomputeWays.h"

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

struct Subject {
  const char *model;
  Layout layout;
};

void PrintTo(const Subject &subject, std::ostream *out) { *out << subject.model << " " << subject.layout.name; }

/// A model of 12 layers, or of this many.
struct Planned {
  explicit Planned(const Subject &subject, int64_t layers = 12) {
    DialectRegistry registry;
    registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto symbols = smallSymbols(subject.model);
    symbols["layers"] = layers;
    symbols["embed"] = 64, symbols["head_dim"] = 16, symbols["mlp"] = 256, symbols["positions"] = 64;
    model = load(std::string(DTC_SOURCE_DIR) + "/examples/" + subject.model, {16, 64, 0.1, symbols}, context);
    options.what.accumulation = subject.layout.accumulation;
    options.where.mesh = subject.layout.mesh;
    options.where.strategy = subject.layout.strategy;
    planner = Planner::create(*model.module, options);
  }

  MLIRContext context;
  Model model;
  CompileOptions options;
  std::unique_ptr<Planner> planner;
};

class ChooseRecompute : public testing::TestWithParam<Subject> {
protected:
  explicit ChooseRecompute(int64_t layers = 12) : planned(GetParam(), layers), planner(planned.planner.get()) {}

  uint64_t peakOf(const std::string &way) {
    Choices choices;
    choices.recompute = {{"*", *parseRecomputeRuns(way), ""}};
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    return peakOf(*plan);
  }

  /// Where no layer gathers its parameters again.
  uint64_t peakOfShared(const std::string &way) {
    Choices choices;
    choices.recompute = {{"*", *parseRecomputeRuns(way), ""}};
    choices.gathers = {{planner->layers(given).front().list + ".*", {{Gathering::Shared}}, ""}};
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
    ScopedDiagnosticHandler handler(&planned.context, [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
    bool isRefused = failed(chooseRecompute(*planner, {}, limit, timingDevice));
    EXPECT_EQ(isRefused, !problem.empty());
    return problem;
  }

  const timing::Device timingDevice = device();
  const Choices given;
  Planned planned;
  Planner *planner;
};

TEST_P(ChooseRecompute, FitsAndTakesNoLongerWhereThereIsMoreRoom) {
  ASSERT_TRUE(planner);
  uint64_t most = peakOfShared("none"), few = peakOf("full");
  ASSERT_LT(few, most);
  double before = std::numeric_limits<double>::infinity();
  constexpr uint64_t limits = 20;
  std::set<std::string> texts;
  for (uint64_t i = 0; i <= limits; ++i) {
    uint64_t limit = few + (most - few) * i / limits;
    FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, {}, limit, timingDevice);
    ASSERT_TRUE(succeeded(chosen));
    EXPECT_LE(chosen->bytes, limit);
    EXPECT_LE(chosen->seconds, before);
    EXPECT_GE(chosen->flops, chosen->flopsOfNone);
    before = chosen->seconds;
    texts.insert(chosen->text);
    // It is what it promises, also once it has been written down and read again.
    std::optional<Choices> again = parseChoices(printChoices(chosen->choices, true), "stored", {},
                                                [](const llvm::Twine &text) { FAIL() << text.str(); });
    ASSERT_TRUE(again);
    FailureOr<Plan> plan = planner->plan(*again);
    ASSERT_TRUE(succeeded(plan));
    EXPECT_EQ(peakOf(*plan), chosen->bytes);
  }
  EXPECT_GT(texts.size(), 6U);
  EXPECT_TRUE(texts.contains(planner->gathersState() ? "12 of 12 layers none; parameters of 12 gathered once"
                                                     : "12 of 12 layers none"));
}

// Where activations have half of the memory between full and none.
TEST_P(ChooseRecompute, TakesLittleOfTheTimeOfFullAtHalfOfTheMemory) {
  ASSERT_TRUE(planner);
  RecomputeTrials trials(*planner, given, timingDevice, nullptr);
  auto uniform = [&](abi::Recompute::Kind kind) { return *trials.attempt(Treatment(12, {{kind}})); };
  const RecomputeTrial &none = *uniform(abi::Recompute::Kind::None), &full = *uniform(abi::Recompute::Kind::Full);
  FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, {}, (none.most() + full.most()) / 2, timingDevice);
  ASSERT_TRUE(succeeded(chosen));
  EXPECT_LE(chosen->seconds - none.slowest(), 0.6 * (full.slowest() - none.slowest())) << chosen->text;
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

/// Those of layers [begin, end) of twelve that recompute something.
int64_t remadeLayers(const std::vector<RecomputeRule> &rules, int64_t begin, int64_t end) {
  int64_t count = 0, layer = 0;
  for (const RecomputeRun &run : shareOutRuns(rules.back().runs, 12))
    for (int64_t i = 0; i < run.layers; ++i, ++layer)
      count += begin <= layer && layer < end && run.how.kind != abi::Recompute::Kind::None;
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
  FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, choices, (first + last) / 2, timingDevice);
  ASSERT_TRUE(succeeded(chosen));
  EXPECT_GT(remadeLayers(chosen->choices.recompute, 0, 9), 0);
  EXPECT_EQ(remadeLayers(chosen->choices.recompute, 9, 12), 0);
}

/// Two of these cores, and a link on which transfers take longer than computing.
timing::Cluster slowCluster() {
  return timing::parseCluster(R"(
name: "slow"
devices { name: "core" peaks { type: "f32" flops: 260e9 } memory_bandwidth: 38e9 launch_seconds: 1e-7
          memory_bytes: 8000000000 }
nodes { device: "core" devices: 1 count: 2 }
levels { name: "network" latency: 5e-6 bandwidth: 140e6 }
)",
                              "test");
}

class GathersOfLayers : public ChooseRecompute {
protected:
  FailureOr<ChosenRecompute> choose(const Choices &choices, uint64_t limit) {
    return chooseRecompute(*planner, choices, limit, timingDevice, &layout);
  }

  /// Starts of each layer in a step, and the bytes that they send.
  std::vector<std::pair<int64_t, double>> startsWith(std::vector<GatherRule> gathers) {
    Choices choices;
    choices.gathers = std::move(gathers);
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    std::vector<std::pair<int64_t, double>> starts(12);
    const FlatRole &role = *plan->roles.front().role;
    for (const FlatEntry &entry : role.step)
      for (const FlatCommand &command : role.functions[entry.function].commands)
        if (command.kind == FlatCommand::Kind::Start && command.layers == "h") {
          ++starts[command.layer].first;
          starts[command.layer].second += command.sent;
        }
    return starts;
  }

  timing::Layout layout{slowCluster(), planner->mesh()};
};

TEST_P(GathersOfLayers, AreCountedAsLayersThatAreComputedAgain) {
  ASSERT_TRUE(planner);
  auto again = startsWith({{"h.*", *parseGatherRuns("again"), ""}});
  auto shared = startsWith({{"h.*", *parseGatherRuns("shared"), ""}});
  auto mixed = startsWith({{"h.*", *parseGatherRuns("2 again, 1 shared"), ""}});
  for (size_t layer = 0; layer < 12; ++layer) {
    EXPECT_NEAR(shared[layer].second / again[layer].second, 2.0 / 3, 0.02) << layer;
    EXPECT_EQ(mixed[layer], layer < 8 ? again[layer] : shared[layer]) << layer;
  }
}

TEST_P(GathersOfLayers, AreSharedByTheLastLayersFirst) {
  ASSERT_TRUE(planner);
  FailureOr<ChosenRecompute> all = choose({}, peakOfShared("none")),
                             some = choose({}, (peakOf("full") + peakOfShared("full")) / 2);
  ASSERT_TRUE(succeeded(all) && succeeded(some));
  EXPECT_EQ(all->text, "12 of 12 layers none; parameters of 12 gathered once");
  ASSERT_EQ(all->choices.gathers.size(), 1U);
  EXPECT_EQ(all->choices.gathers.front().parameters, "h.*");
  EXPECT_EQ(printGatherRuns(all->choices.gathers.front().runs), "shared");
  ASSERT_EQ(some->choices.gathers.size(), 1U);
  const std::vector<GatherRun> &runs = some->choices.gathers.front().runs;
  ASSERT_GE(runs.size(), 2U) << some->text;
  EXPECT_EQ(runs.front().how, Gathering::Again);
  EXPECT_EQ(runs.back().how, Gathering::Shared);
  EXPECT_LT(all->seconds, some->seconds);
}

// A rule about parameters holds, also for layers that share the gathers of others.
TEST_P(GathersOfLayers, AreAsTheUserSaysThem) {
  ASSERT_TRUE(planner);
  constexpr uint64_t enough = uint64_t(1) << 40;
  Choices choices;
  choices.gathers = {{"h.*", *parseGatherRuns("again"), ""}};
  FailureOr<ChosenRecompute> none = choose(choices, enough);
  ASSERT_TRUE(succeeded(none));
  EXPECT_EQ(none->text, "12 of 12 layers none");
  EXPECT_EQ(none->choices.gathers.size(), 1U);
  choices.gathers = {{"h.*.mlp.*", *parseGatherRuns("again"), ""}};
  FailureOr<ChosenRecompute> some = choose(choices, enough);
  ASSERT_TRUE(succeeded(some));
  ASSERT_EQ(some->choices.gathers.size(), 2U);
  EXPECT_EQ(some->choices.gathers.front().parameters, "h.*");
  EXPECT_EQ(some->choices.gathers.back().parameters, "h.*.mlp.*"); // the last that fits counts
}

constexpr size_t namedWays = 5; ///< none, cheap, regather, selective and full come first

class RecomputeOfFewLayers : public ChooseRecompute {
protected:
  RecomputeOfFewLayers() : ChooseRecompute(3) {}
};

/// All combinations for three layers of the named ways; of all ways, those in which no layer keeps less than the one
/// before it.
std::vector<const RecomputeTrial *> tryAll(RecomputeTrials &trials, const ClassWays &ways) {
  std::vector<const RecomputeTrial *> tried;
  auto attempt = [&](const Treatment &treatment) {
    FailureOr<const RecomputeTrial *> trial = trials.attempt(treatment);
    EXPECT_TRUE(succeeded(trial));
    tried.push_back(*trial);
  };
  for (size_t first = 0; first < ways.hows.size(); ++first)
    for (size_t second = 0; second < ways.hows.size(); ++second)
      for (size_t third = 0; third < ways.hows.size(); ++third) {
        bool haveNames = std::max({first, second, third}) < namedWays;
        bool areInOrder =
            ways.ways[first].bytes <= ways.ways[second].bytes && ways.ways[second].bytes <= ways.ways[third].bytes;
        if (haveNames || areInOrder)
          attempt({ways.hows[first], ways.hows[second], ways.hows[third]});
      }
  return tried;
}

TEST_P(RecomputeOfFewLayers, IsNearlyAsFastAsTheFastestOfAllThatFit) {
  ASSERT_TRUE(planner);
  RecomputeTrials trials(*planner, given, timingDevice, nullptr);
  FailureOr<const RecomputeTrial *> none = trials.attempt(Treatment(3, {{abi::Recompute::Kind::None}}));
  ASSERT_TRUE(succeeded(none));
  auto ways = findWays(*planner, given, trials, **none);
  ASSERT_TRUE(succeeded(ways));
  std::vector<const RecomputeTrial *> tried = tryAll(trials, ways->begin()->second);
  auto [least, most] = std::ranges::minmax(tried, {}, [](const RecomputeTrial *trial) { return trial->most(); });
  constexpr uint64_t limits = 20;
  for (uint64_t i = 0; i <= limits; ++i) {
    uint64_t limit = least->most() + (most->most() - least->most()) * i / limits;
    double fastest = std::numeric_limits<double>::infinity();
    for (const RecomputeTrial *trial : tried)
      if (trial->most() <= limit)
        fastest = std::min(fastest, trial->slowest());
    FailureOr<ChosenRecompute> chosen = chooseRecompute(*planner, given, limit, timingDevice);
    ASSERT_TRUE(succeeded(chosen));
    EXPECT_LE(chosen->seconds, 1.03 * fastest) << limit << ": " << chosen->text;
  }
}

// A layer of Megatron-SP keeps its input, the products for queries, keys and values, attention, the sum after its
// projection and the hidden units: 1 + 3 + 1 + 1 + 4 pieces of the stream, and attention's statistics.
TEST(Regathered, KeepsWhatTheTermsOfMegatronSpSay) {
  Subject subject{"gpt-small", {"sequence", "tp=2", "megatron-sp", 1}};
  const timing::Device core = device();
  const Choices given;
  uint64_t kept[2];
  for (int64_t more : {0, 1}) {
    Planned planned(subject, 3 + more);
    ASSERT_TRUE(planned.planner);
    RecomputeTrials trials(*planned.planner, given, core, nullptr);
    FailureOr<const RecomputeTrial *> trial = trials.attempt(Treatment(3 + more, {{abi::Recompute::Kind::Regather}}));
    ASSERT_TRUE(succeeded(trial));
    kept[more] = (*trial)->kept;
  }
  constexpr uint64_t rows = 16 * 64, embed = 64, heads = 4, ranks = 2;
  EXPECT_EQ(kept[1] - kept[0], rows * (10 * embed + heads) / ranks * sizeof(float));
}

constexpr Layout one{"one", "dp=1", "ddp", 1}, zero3{"zero3", "dp=2", "zero3", 2},
    sequence{"sequence", "tp=2", "megatron-sp", 1}, pipeline{"pipeline", "pp=2", "ddp", 4};

std::string nameOfSubject(const testing::TestParamInfo<Subject> &info) {
  return (std::string_view(info.param.model).starts_with("gpt") ? "gpt_" : "llama_") +
         std::string(info.param.layout.name);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ChooseRecompute,
                         testing::Values(Subject{"gpt-small", one}, Subject{"llama-small", one},
                                         Subject{"gpt-small", zero3}, Subject{"gpt-small", sequence},
                                         Subject{"gpt-small", pipeline}),
                         nameOfSubject);
INSTANTIATE_TEST_SUITE_P(Layouts, RecomputeOfStages, testing::Values(Subject{"gpt-small", pipeline}), nameOfSubject);
INSTANTIATE_TEST_SUITE_P(Layouts, GathersOfLayers, testing::Values(Subject{"gpt-small", zero3}), nameOfSubject);
INSTANTIATE_TEST_SUITE_P(Layouts, RecomputeOfFewLayers,
                         testing::Values(Subject{"gpt-small", one}, Subject{"llama-small", one},
                                         Subject{"gpt-small", sequence}),
                         nameOfSubject);

} // namespace
} // namespace dtc::test
