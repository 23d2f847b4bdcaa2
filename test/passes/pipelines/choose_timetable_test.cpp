// The timetable that is found is no slower than the named ones, fits, and is what the program then does.
#include "passes/pipelines/search/ChooseTimetable.h"
#include "passes/pipelines/search/CommandSeconds.h"
#include "runtime/abi/timetables.h"
#include "test/passes/pipelines/compilation.h"
#include "timing/events/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using testing::HasSubstr;

namespace dtc::test {
namespace {

timing::Cluster equalDevices() {
  return timing::parseCluster(R"(
name: "two"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
)",
                              "test");
}

constexpr int64_t microBatches = 6;

struct Timetables {
  Timetables() : compilation({"two_stages", "gpt-small", "pp=2", "ddp", microBatches}) {
    planner = compilation.makePlanner();
    layout.emplace(equalDevices(), planner->mesh());
  }

  FailureOr<ChosenTimetable> choose(uint64_t limit = 0) {
    return chooseTimetable(*planner, given, microBatches, limit, *layout);
  }

  Plan plan(const Choices &choices) {
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    return std::move(*plan);
  }

  uint64_t arenaOf(const Choices &choices) { return largestArena(plan(choices)); }

  Compilation compilation;
  std::unique_ptr<Planner> planner;
  std::optional<timing::Layout> layout;
  Choices given;
};

TEST(ChooseTimetable, IsNoSlowerThanNamedOnesAndIsWhatTheProgramDoes) {
  Timetables timetables;
  FailureOr<ChosenTimetable> chosen = timetables.choose();
  ASSERT_TRUE(succeeded(chosen));
  EXPECT_GE(chosen->simulated, 3U);
  EXPECT_FALSE(chosen->bestNamed.empty());
  EXPECT_LE(chosen->seconds, chosen->namedSeconds);
  std::optional<Choices> again = parseChoices(printChoices(chosen->choices, true), "stored", {},
                                              [](const llvm::Twine &text) { FAIL() << text.str(); });
  ASSERT_TRUE(again);
  FailureOr<CompiledProgram> program = timetables.planner->compile(*again, /*generateCode=*/false);
  ASSERT_TRUE(succeeded(program));
  timing::Step step = timing::readStep(program->manifest, abi::stepTimetable);
  EXPECT_DOUBLE_EQ(timing::simulate(step, *timetables.layout).seconds, chosen->seconds);
}

TEST(ChooseTimetable, FitsIntoTheMemory) {
  Timetables timetables;
  FailureOr<ChosenTimetable> free = timetables.choose();
  ASSERT_TRUE(succeeded(free));
  Choices naive;
  naive.timetable = "naive";
  uint64_t most = timetables.arenaOf(free->choices), least = timetables.arenaOf(naive);
  if (least < most) {
    FailureOr<ChosenTimetable> tight = timetables.choose(most - 1);
    ASSERT_TRUE(succeeded(tight));
    EXPECT_LT(timetables.arenaOf(tight->choices), most);
    EXPECT_GE(tight->seconds, free->seconds);
  }
  std::string problem;
  ScopedDiagnosticHandler handler(&timetables.compilation.context,
                                  [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
  EXPECT_TRUE(failed(timetables.choose(1)));
  EXPECT_THAT(problem, HasSubstr("timetables that were tried fits into the memory; the least lacks "));
}

// Each pass of each stage takes something, and a step is made of them and the update.
TEST(ChooseTimetable, CostsAreThoseOfThePasses) {
  Timetables timetables;
  Choices choices;
  choices.timetable = "zb-h1";
  Plan plan = timetables.plan(choices);
  abi::Mesh mesh = timetables.planner->mesh();
  timetables::Costs costs = timetableCosts(plan, {0, 1}, mesh, *timetables.layout);
  ASSERT_EQ(costs.stages.size(), 2U);
  CommandSeconds seconds(timetables.layout->deviceOf(0), &*timetables.layout, mesh);
  for (size_t stage = 0; stage < 2; ++stage) {
    const timetables::StageCosts &each = costs.stages[stage];
    EXPECT_GT(each.forward, 0);
    EXPECT_GT(each.input, 0);
    EXPECT_GT(each.weight, 0);
    EXPECT_DOUBLE_EQ(each.backward, each.input + each.weight);
    EXPECT_LT(microBatches * (each.forward + each.backward), seconds.ofStep(*plan.roles[stage].role));
    EXPECT_GT(each.stashForWeight, 0);
    EXPECT_GT(each.stash, each.stashForWeight) << "the input gradients alone read some of it";
    EXPECT_GT(each.gradientStash, 0);
  }
  EXPECT_GT(costs.transfer, 5e-6); // one latency, and the bytes
}

} // namespace
} // namespace dtc::test
