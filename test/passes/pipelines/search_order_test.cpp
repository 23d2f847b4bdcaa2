// The result of a search is better, fits, and is what the program then does.
#include "passes/pipelines/search/SearchOrder.h"
#include "runtime/abi/timetables.h"
#include "test/passes/pipelines/compilation.h"
#include "timing/events/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;

namespace dtc::test {
namespace {

/// One rank per node, and links on which transfers take about as long as computing.
timing::Cluster slowCluster(size_t ranks) {
  timing::Cluster cluster = timing::parseCluster(R"(
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e11 } peaks { type: "bf16" flops: 2e11 } memory_bandwidth: 1e10
          memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 1 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
)",
                                                 "test");
  cluster.mutable_nodes(0)->set_count(static_cast<uint32_t>(ranks));
  return cluster;
}

struct Search {
  explicit Search(const Case &setup) : compilation(setup) {
    planner = Planner::create(*compilation.model.module, compilation.options);
    abi::Mesh mesh = planner->mesh();
    size_t ranks = 1;
    for (const abi::Axis &axis : mesh.axes())
      ranks *= static_cast<size_t>(axis.size());
    layout.emplace(slowCluster(ranks), mesh);
  }

  SearchedOrder run(uint64_t effort, uint64_t memory = 0, size_t enough = 0) {
    FailureOr<SearchedOrder> found =
        searchOrder(*planner, compilation.options.choices, *layout, {effort, memory, enough});
    EXPECT_TRUE(succeeded(found));
    return std::move(*found);
  }

  uint64_t arenaOf(const Choices &choices) {
    FailureOr<Plan> plan = planner->plan(choices);
    EXPECT_TRUE(succeeded(plan));
    return largestArena(*plan);
  }

  double secondsOfProgram(const Choices &choices) {
    FailureOr<CompiledProgram> program = planner->compile(choices, /*generateCode=*/false);
    EXPECT_TRUE(succeeded(program));
    return timing::simulate(timing::readStep(program->manifest, abi::stepTimetable), *layout).seconds;
  }

  Compilation compilation;
  std::unique_ptr<Planner> planner;
  std::optional<timing::Layout> layout;
};

class SearchOrderTest : public testing::TestWithParam<Case> {};

TEST_P(SearchOrderTest, IsNeverWorseAndIsWhatTheProgramDoes) {
  Search search(GetParam());
  SearchedOrder found = search.run(60);
  EXPECT_DOUBLE_EQ(found.before, search.secondsOfProgram({}));
  EXPECT_DOUBLE_EQ(found.after, search.secondsOfProgram(found.choices));
  EXPECT_LE(found.after, found.before);
  uint64_t simple = search.arenaOf({});
  EXPECT_LE(search.arenaOf(found.choices), simple + simple / 16);
}

TEST_P(SearchOrderTest, RanksOtherBuckets) {
  Search search(GetParam());
  SearchedOrder found = search.run(60, 0, 1000);
  uint64_t simple = search.arenaOf({});
  std::set<std::string> texts;
  for (const RankedPlan &each : found.tried) {
    EXPECT_DOUBLE_EQ(each.seconds, search.secondsOfProgram(each.choices));
    EXPECT_LE(search.arenaOf(each.choices), simple + simple / 16);
    texts.insert(printChoices(each.choices, /*isPipeline=*/true));
  }
  EXPECT_EQ(texts.size(), found.tried.size());
}

TEST_P(SearchOrderTest, GivesTheSameAgain) {
  Search search(GetParam()), other(GetParam());
  SearchedOrder found = search.run(40), again = other.run(40);
  EXPECT_EQ(printChoices(found.choices, true), printChoices(again.choices, true));
  EXPECT_EQ(found.plans, again.plans);
}

TEST_P(SearchOrderTest, CanBeEndedAtAnyTime) {
  Search search(GetParam());
  double before = search.run(1).before;
  for (uint64_t effort : {1, 2, 5, 11, 30, 60}) {
    SearchedOrder found = search.run(effort);
    EXPECT_LE(found.plans, effort);
    EXPECT_LE(found.tried.size(), found.plans) << effort;
    EXPECT_LE(found.after, before) << effort;
    EXPECT_EQ(found.isComplete, found.plans < effort);
    before = found.after;
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, SearchOrderTest, testing::ValuesIn(setups),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(SearchOrderTest, OnePlanIsTheSimpleOrder) {
  Search search(setups[1]);
  SearchedOrder found = search.run(1);
  EXPECT_EQ(found.plans, 1U);
  EXPECT_THAT(found.choices.order, IsEmpty());
  EXPECT_EQ(found.after, found.before);
}

// One by one as given; in buckets by cost. The order found does not matter here.
TEST(SearchOrderTest, GradientsGoInOtherBuckets) {
  Search search({"data_parallel", "gpt-small", "dp=2", "ddp"});
  SearchedOrder few = search.run(60), enough = search.run(60, 0, few.tried.size() + 1);
  EXPECT_GT(enough.tried.size(), few.tried.size());
  EXPECT_EQ(printChoices(enough.choices, false), printChoices(few.choices, false));
  for (size_t i = few.tried.size(); i < enough.tried.size(); ++i) // the given ones are not among them
    EXPECT_FALSE(enough.tried[i].choices.buckets.empty());
  EXPECT_EQ(search.run(60, 0, few.tried.size()).tried.size(), few.tried.size());
}

// The gradient of one weight is computed while the input's gradient of the product before is summed up.
TEST(SearchOrderTest, WeightGradientsRunBesideWhatOthersWaitFor) {
  Search search({"megatron", "gpt-small", "tp=2", "megatron"});
  SearchedOrder found = search.run(60);
  EXPECT_LT(found.after, 0.98 * found.before);
  EXPECT_THAT(found.choices.order,
              Contains(Field(&OrderRule::move, "weight_gradient contract contract_backward h.*.mlp.c_proj")));
}

// What is whole for the embedding may stay whole for the head; a limit on memory forbids it.
TEST(SearchOrderTest, GathersAreSharedWhereMemoryAllows) {
  Search search({"zero3", "gpt-small", "dp=2", "zero3"});
  uint64_t simple = search.arenaOf({});
  SearchedOrder some = search.run(60), all = search.run(60, 2 * simple), none = search.run(60, simple);
  EXPECT_LE(all.after, some.after);
  EXPECT_LE(some.after, none.after);
  EXPECT_LT(all.after, none.after);
  EXPECT_LT(all.after, 0.95 * all.before);
  EXPECT_THAT(all.choices.gathers, Contains(Field(&GatherRule::runs, std::vector{GatherRun{Gathering::Shared}})));
  EXPECT_LE(search.arenaOf(all.choices), 2 * simple);
  EXPECT_LE(search.arenaOf(none.choices), simple);
}

} // namespace
} // namespace dtc::test
