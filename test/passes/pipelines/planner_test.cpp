// Compares the planner's predictions with the compiler's results, to the byte: in the compiler's own order, and in
// others.
#include "passes/pipelines/search/Planner.h"

#include "dialect/IR/Names.h"
#include "mlir/Pass/PassManager.h"
#include "passes/analysis/Stages.h"
#include "passes/pipelines/search/PlannedStep.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/ReadStep.h"
#include "passes/schedule/memory/MemoryPlan.h"
#include "runtime/abi/random.h"
#include "runtime/abi/timetables.h"
#include "test/passes/pipelines/compilation.h"
#include "timing/events/simulate.h"
#include "tools/dtc/StepWork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

using namespace mlir;
using testing::HasSubstr;

namespace dtc::test {
namespace {

/// Some collectives of the first stage start only when they are waited for.
Choices otherOrder(const Plan &plan) {
  Choices choices;
  for (const FlatFunction &function : plan.roles.front().role->functions)
    for (auto [number, command] : llvm::enumerate(function.commands)) {
      if (command.kind != FlatCommand::Kind::Start || command.users.empty() || !command.stages.isEmpty() ||
          command.users.front() == static_cast<int>(number) + 1)
        continue;
      const FlatCommand &wait = function.commands[command.users.front()];
      OrderRule rule{function.name, command.name, true, wait.name, wait.layer - command.layer, ""};
      if (wait.layers == command.layers && choices.order.size() < 3 &&
          llvm::none_of(choices.order, [&](const OrderRule &other) { return other.move == rule.move; }))
        choices.order.push_back(rule);
    }
  return choices;
}

/// The offsets of values with their own memory, in the order of their creation, from the attribute.
std::vector<uint64_t> offsetsIn(func::FuncOp function) {
  FailureOr<FunctionOffsets> said = FunctionOffsets::of(function);
  EXPECT_TRUE(succeeded(said));
  std::vector<uint64_t> offsets(said->arguments.begin(), said->arguments.end());
  offsets.insert(offsets.end(), said->values.begin(), said->values.end());
  return offsets;
}

std::vector<uint64_t> offsetsIn(const PlannedRole &role, size_t number) {
  std::vector<uint64_t> offsets;
  const FlatFunction &function = role.role->functions[number];
  for (int port : function.arguments)
    offsets.push_back(role.portOffsets[port]);
  for (int command : role.orders[number])
    for (const FlatResult &result : function.commands[command].results)
      if (result.isRoot)
        offsets.push_back(role.offsets[number][result.value]);
  return offsets;
}

void expectSameMemory(const Plan &plan, ModuleOp module, const abi::Manifest &manifest) {
  ASSERT_EQ(static_cast<int>(plan.roles.size()), manifest.roles_size());
  for (auto [stage, planned] : llvm::enumerate(plan.roles)) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    const abi::Role &role = manifest.roles(static_cast<int>(stage));
    EXPECT_EQ(planned.arena.bytes, role.arena_bytes());
    EXPECT_EQ(planned.arena.shared, role.shared_begin());
    ASSERT_EQ(static_cast<int>(planned.memory.size()), role.memory_size());
    for (auto [use, stated] : llvm::zip_equal(planned.memory, role.memory())) {
      EXPECT_EQ(use.first, stated.category());
      EXPECT_EQ(use.second, stated.bytes()) << use.first;
    }
    SmallVector<func::FuncOp> functions = functionsOf(module, static_cast<int64_t>(stage));
    ASSERT_EQ(functions.size(), planned.orders.size());
    for (auto [number, function] : llvm::enumerate(functions))
      EXPECT_EQ(offsetsIn(planned, number), offsetsIn(function)) << function.getName().str();
  }
}

/// Two kinds of links and two of kernels, so that nothing is equal by chance.
timing::Cluster cluster(int64_t ranks) {
  timing::Cluster cluster = timing::parseCluster(R"(
name: "test"
devices { name: "a" peaks { type: "f32" flops: 1e12 } peaks { type: "bf16" flops: 3e12 }
          memory_bandwidth: 1e11 launch_seconds: 3e-6 memory_bytes: 1000000000
          efficiencies { kernel_class: "product" points { share: 0.3 } } }
nodes { device: "a" devices: 2 count: 1 }
levels { name: "inner" latency: 2e-6 bandwidth: 3e9 processor_share: 0.25 }
levels { name: "outer" latency: 9e-6 bandwidth: 1e9 shared_by: 2 }
)",
                                                 "test");
  cluster.mutable_nodes(0)->set_count(static_cast<uint32_t>(ranks + 1) / 2);
  return cluster;
}

/// The simulation of a plan equals that of its program, to the bit.
void expectSameTimes(const Plan &plan, const abi::Manifest &manifest) {
  timing::Step planned = plannedStep(plan, manifest.mesh()), read = timing::readStep(manifest, abi::stepTimetable);
  EXPECT_EQ(planned.roleOf, read.roleOf);
  timing::Layout layout(cluster(static_cast<int64_t>(read.roleOf.size())), manifest.mesh());
  timing::Simulated first = timing::simulate(planned, layout), second = timing::simulate(read, layout);
  EXPECT_GT(first.seconds, 0);
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.actions, second.actions);
  ASSERT_EQ(first.classes.size(), second.classes.size());
  for (size_t number = 0; number < first.classes.size(); ++number) {
    const timing::ClassTimes &one = first.classes[number], &other = second.classes[number];
    EXPECT_EQ(one.end, other.end);
    EXPECT_EQ(one.compute, other.compute);
    EXPECT_EQ(one.stolen, other.stolen);
    EXPECT_EQ(one.moved, other.moved);
    EXPECT_EQ(one.busy, other.busy);
    ASSERT_EQ(one.exposed.size(), other.exposed.size());
    for (size_t i = 0; i < one.exposed.size(); ++i)
      EXPECT_EQ(std::pair(one.exposed[i].late, one.exposed[i].moving),
                std::pair(other.exposed[i].late, other.exposed[i].moving));
  }
}

class PlannerTest : public testing::TestWithParam<Case> {};

TEST_P(PlannerTest, PlansWhatTheCompilerMakes) {
  Compilation compilation(GetParam());
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  FailureOr<Plan> own = planner->plan({});
  ASSERT_TRUE(succeeded(own));
  FailureOr<CompiledProgram> program = planner->compile({}, /*generateCode=*/false);
  ASSERT_TRUE(succeeded(program));
  expectSameMemory(*own, *compilation.at(Phase::When), program->manifest);
  expectSameTimes(*own, program->manifest);
  // Work, too, by part of the step.
  for (auto [planned, role] : llvm::zip_equal(own->roles, program->manifest.roles()))
    for (auto &[direction, stated] : totalsOfStep(program->manifest, role)) {
      const PlannedWork &work = planned.work[direction];
      EXPECT_DOUBLE_EQ(work.flops, stated.flops);
      EXPECT_DOUBLE_EQ(work.bytesRead, stated.bytesRead);
      EXPECT_DOUBLE_EQ(work.bytesWritten, stated.bytesWritten);
      EXPECT_DOUBLE_EQ(work.sent, stated.sent);
    }

  Choices choices = otherOrder(*own);
  ASSERT_FALSE(choices.order.empty());
  FailureOr<Plan> other = planner->plan(choices);
  FailureOr<CompiledProgram> reordered = planner->compile(choices, /*generateCode=*/false);
  ASSERT_TRUE(succeeded(other) && succeeded(reordered));
  bool hasMoved = false;
  for (auto [before, after] : llvm::zip_equal(own->roles, other->roles))
    hasMoved |= before.orders != after.orders;
  EXPECT_TRUE(hasMoved);
  compilation.options.choices = choices;
  expectSameMemory(*other, *compilation.at(Phase::When), reordered->manifest);
  expectSameTimes(*other, reordered->manifest);

  // Plans made in between leave nothing behind.
  FailureOr<Plan> again = planner->plan({});
  ASSERT_TRUE(succeeded(again));
  for (auto [before, after] : llvm::zip_equal(own->roles, again->roles)) {
    EXPECT_EQ(before.offsets, after.offsets);
    EXPECT_EQ(before.portOffsets, after.portOffsets);
    EXPECT_EQ(before.arena.bytes, after.arena.bytes);
  }
}

int partsIn(const abi::Manifest &manifest) {
  int parts = 0;
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      parts += command.start().more();
  return parts;
}

TEST_P(PlannerTest, BucketsArePlannedAsTheyAreCompiled) {
  Compilation compilation(GetParam());
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  FailureOr<Plan> alone = planner->plan({});
  ASSERT_TRUE(succeeded(alone));
  int most = 0;
  for (abi::BucketSize size : {abi::BucketSize{abi::BucketSize::Kind::Auto}, {abi::BucketSize::Kind::Bytes, 2000}}) {
    Choices choices;
    choices.bucketSize = size;
    FailureOr<Plan> plan = planner->plan(choices);
    FailureOr<CompiledProgram> program = planner->compile(choices, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(plan) && succeeded(program));
    EXPECT_FALSE(plan->buckets.empty());
    EXPECT_GT(partsIn(program->manifest), 0);
    most = std::max(most, partsIn(program->manifest));
    compilation.options.choices = choices;
    expectSameMemory(*plan, *compilation.at(Phase::When), program->manifest);
    expectSameTimes(*plan, program->manifest);

    // The choices that the program states give the same lists again.
    std::optional<Choices> said = parseChoices(program->manifest.choices(), "choices", {},
                                               [](const Twine &problem) { ADD_FAILURE() << problem.str(); });
    ASSERT_TRUE(said);
    EXPECT_EQ(said->bucketSize.kind, abi::BucketSize::Kind::None);
    FailureOr<CompiledProgram> again = planner->compile(*said, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(again));
    EXPECT_EQ(again->manifest.SerializeAsString(), program->manifest.SerializeAsString());

    // An order that starts some of them later joins fewer, and the plan knows.
    choices.order = otherOrder(*alone).order;
    FailureOr<Plan> apart = planner->plan(choices);
    FailureOr<CompiledProgram> fewer = planner->compile(choices, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(apart) && succeeded(fewer));
    EXPECT_LE(partsIn(fewer->manifest), partsIn(program->manifest));
    compilation.options.choices = choices;
    expectSameMemory(*apart, *compilation.at(Phase::When), fewer->manifest);
    expectSameTimes(*apart, fewer->manifest);
  }
  EXPECT_GT(most, 10);
}

/// Draws valid orders: commands move as far as their operands and users allow.
class Shuffler {
public:
  Shuffler(const FlatFunction &function, uint32_t seed)
      : function(function), stream(random::stream(seed, 0, 0)), users(function.commands.size()) {
    for (size_t number = 0; number < function.commands.size(); ++number)
      for (int before : function.commands[number].after)
        users[before].push_back(static_cast<int>(number));
  }

  FlatOrder next(FlatOrder order, int moves) {
    for (int i = 0; i < moves; ++i) {
      std::vector<int> at(order.size());
      for (size_t place = 0; place < order.size(); ++place)
        at[order[place]] = static_cast<int>(place);
      int moved = below(static_cast<int>(order.size())), first = 0, last = static_cast<int>(order.size()) - 1;
      for (int before : function.commands[moved].after)
        first = std::max(first, at[before] + 1);
      for (int user : users[moved])
        last = std::min(last, at[user] - 1);
      int to = first + below(last - first + 1);
      order.erase(order.begin() + at[moved]);
      order.insert(order.begin() + to, moved);
    }
    return order;
  }

private:
  int below(int limit) { return static_cast<int>(random::uniform(stream, draws++) * limit); }
  const FlatFunction &function;
  uint32_t stream;
  std::vector<std::vector<int>> users;
  uint32_t draws = 0;
};

/// A module's lists, and its roles read from it.
struct Lists {
  explicit Lists(Compilation &compilation) : module(compilation.at(Phase::How)), kernels(*module) {
    EXPECT_TRUE(succeeded(runLists(*module, compilation.options, compilation.options.choices)));
    for (int64_t stage = 0; stage < stagesOf(*module); ++stage)
      roles.push_back(readRole(*module, kernels, stage, functionsOf(*module, stage)));
  }
  OwningOpRef<ModuleOp> module;
  Kernels kernels;
  std::deque<ReadRole> roles;
};

// Any possible order: the planner's places are those of dt-plan-memory, and dt-verify-when proves them.
TEST_P(PlannerTest, AnyOrderIsPlannedAsTheIrIs) {
  Compilation compilation(GetParam());
  for (uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lists lists(compilation);
    for (auto [stage, read] : llvm::enumerate(lists.roles)) {
      std::vector<FlatOrder> orders;
      for (auto [flat, own] : llvm::zip_equal(read.role.functions, read.functions)) {
        orders.push_back(Shuffler(flat, 100 * seed + static_cast<uint32_t>(orders.size())).next(foundOrder(flat), 60));
        ASSERT_EQ(findOrderProblem(flat, orders.back()), "");
        for (Operation *end = own.function.front().getTerminator(); int command : orders.back())
          own.commands[command]->moveBefore(end);
      }
      StepPlanner planner(read.role);
      planner.plan(orders);
      Kernels kernels(*lists.module);
      ASSERT_TRUE(succeeded(kernels.describeAll()));
      auto role = static_cast<int64_t>(stage);
      FailureOr<MemoryPlan> expected =
          MemoryPlan::compute(*lists.module, kernels, role, functionsOf(*lists.module, role));
      ASSERT_TRUE(succeeded(expected));
      EXPECT_EQ(planner.arena().bytes, expected->arenaBytes());
      for (auto [number, own] : llvm::enumerate(read.functions))
        for (auto [value, root] : llvm::enumerate(own.roots))
          if (!isa<BlockArgument>(root))
            ASSERT_EQ(planner.offsetOf(number, static_cast<int>(value)), expected->offsetOf(own.function, root));
    }
    PassManager passes(&compilation.context);
    passes.addPass(createPlanMemory());
    passes.addPass(createVerifyWhen());
    EXPECT_TRUE(succeeded(passes.run(*lists.module)));
  }
}

// One order after another: incremental changes end where planning from scratch does.
TEST_P(PlannerTest, WhatFollowsChangesIsWhatPlanningAnewGives) {
  Compilation compilation(GetParam());
  Lists lists(compilation);
  for (ReadRole &read : lists.roles) {
    StepPlanner planner(read.role);
    std::vector<FlatOrder> orders;
    for (const FlatFunction &function : read.role.functions)
      orders.push_back(foundOrder(function));
    for (uint32_t step = 0; step < 40; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      for (size_t function = 0; function < orders.size(); ++function)
        orders[function] = Shuffler(read.role.functions[function], 1000 * step + static_cast<uint32_t>(function))
                               .next(orders[function], step % 10 == 9 ? 200 : static_cast<int>(step % 3));
      planner.plan(orders);
      StepPlanner anew(read.role);
      anew.plan(orders);
      ASSERT_EQ(planner.arena().bytes, anew.arena().bytes);
      for (size_t function = 0; function < orders.size(); ++function)
        for (int value = 0; value < static_cast<int>(read.role.functions[function].valueBytes.size()); ++value)
          ASSERT_EQ(planner.offsetOf(function, value), anew.offsetOf(function, value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, PlannerTest, testing::ValuesIn(setups),
                         [](const auto &info) { return std::string(info.param.name); });

// The interpreter walks the lists of a program of another order.
TEST(PlannerTest, AnotherOrderComputesTheSame) {
  for (const Case &setup : setups) {
    SCOPED_TRACE(setup.name);
    if (setup.compute != "f32")
      continue;
    Compilation compilation(setup);
    std::unique_ptr<Planner> planner = compilation.makePlanner();
    FailureOr<Plan> own = planner->plan({});
    ASSERT_TRUE(succeeded(own));
    CompiledModel model({.model = setup.model,
                         .mesh = setup.mesh,
                         .strategy = setup.strategy,
                         .accumulation = setup.accumulation,
                         .symbols =
                             [&] {
                               auto symbols = smallSymbols(setup.model);
                               symbols["layers"] = 4;
                               return symbols;
                             }(),
                         .choices = otherOrder(*own)});
    ASSERT_TRUE(model.succeeded);
    EXPECT_THAT(model.manifest.choices(), HasSubstr("[[order]]"));
    EXPECT_EQ(verify::verify(*model.expectation, model.manifest, verify::f64Tolerance).failure, "");
  }
}

/// Collects errors.
struct Errors {
  explicit Errors(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return success();
        }) {}
  std::string text;
  ScopedDiagnosticHandler handler;
};

TEST(PlannerTest, AnOrderThatBreaksADependencyNamesTheTwo) {
  Compilation compilation(setups[0]);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  Choices choices;
  choices.order = {{"micro_last", "update all_reduce h.*.mlp.c_fc.weight", false,
                    "update wait all_reduce h.*.mlp.c_fc.weight", 0, "c.toml:1"}};
  for (bool byTheIr : {false, true}) {
    Errors errors(compilation.context);
    EXPECT_TRUE(byTheIr ? failed(planner->compile(choices, false)) : failed(planner->plan(choices)));
    EXPECT_THAT(errors.text,
                HasSubstr("list 'micro_last': 'update wait all_reduce h.*.mlp.c_fc.weight' of h.0 cannot "
                          "come before 'update all_reduce h.*.mlp.c_fc.weight' of h.0, which must be done first"));
  }
  EXPECT_FALSE((*compilation.model.module)->hasAttr(dt::module_attr::broken));
}

TEST(PlannerTest, ChoicesOfWhatThereIsNot) {
  Compilation compilation(setups[2]);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  auto problemOf = [&](const Choices &choices) {
    Errors errors(compilation.context);
    EXPECT_TRUE(failed(planner->plan(choices)));
    return errors.text;
  };
  Choices choices;
  choices.layers = {1, 3};
  EXPECT_THAT(problemOf(choices), HasSubstr("layers says how many layers each of 2 stages has, and the mesh has 1"));
  choices = {};
  choices.gathers = {{"h.*.mlp.fc.weight", {{Gathering::Shared}}, "c.toml:3"}};
  EXPECT_THAT(problemOf(choices), HasSubstr("c.toml:3: no parameter is called 'h.*.mlp.fc.weight'"));
  choices = {};
  choices.order = {{"*", "forward all_gather h.*.ln_3.weight", true, "forward attention h.*.attn", 0, "c.toml:7"}};
  EXPECT_THAT(problemOf(choices), HasSubstr("c.toml:7: no command is called 'forward all_gather h.*.ln_3.weight'; did "
                                            "you mean 'forward all_gather h.*.ln_"));
}

// Plans of the same commands share their step, and keep it alive when the planner has forgotten it.
TEST(PlannerTest, AStepLivesAsLongAsAPlanOfIt) {
  Compilation compilation(setups[0]);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  std::weak_ptr<const FlatRole> lowered;
  {
    FailureOr<Plan> plan = planner->plan({}), again = planner->plan({});
    ASSERT_TRUE(succeeded(plan) && succeeded(again));
    EXPECT_EQ(plan->roles.front().role, again->roles.front().role);
    lowered = plan->roles.front().role;
    planner.reset();
    EXPECT_FALSE(lowered.expired());
  }
  EXPECT_TRUE(lowered.expired());
}

// Neither planning nor compiling touches the module.
TEST(PlannerTest, TheModelStaysAsItWas) {
  Compilation compilation(setups[0]);
  auto textOf = [&] {
    std::string text;
    llvm::raw_string_ostream stream(text);
    compilation.model.module->print(stream);
    return text;
  };
  std::string before = textOf();
  ASSERT_TRUE(succeeded(compile(*compilation.model.module, compilation.options, /*generateCode=*/false)));
  EXPECT_EQ(textOf(), before);
}

/// How often a parameter is gathered in a list, by the planner.
int countGathers(const Plan &plan, const std::string &list, const std::string &parameter) {
  int count = 0;
  for (const FlatFunction &function : plan.roles.front().role->functions)
    for (const FlatCommand &command : function.commands)
      count += function.name == list && command.kind == FlatCommand::Kind::Start && command.layer == 1 &&
               StringRef(command.name).contains("all_gather h.*." + parameter);
  return count;
}

TEST(PlannerTest, GathersAreSharedOrMadeAgainAsChosen) {
  Compilation compilation(setups[2]);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  Choices choices;
  FailureOr<Plan> own = planner->plan(choices);
  ASSERT_TRUE(succeeded(own));
  EXPECT_EQ(countGathers(*own, "micro_last", "mlp.c_fc.weight"), 2); // forward and backward
  EXPECT_EQ(countGathers(*own, "micro_last", "mlp.c_proj.weight"), 2);
  choices.gathers = {{"h.*.mlp.*", {{Gathering::Shared}}, ""}, {"h.*.mlp.c_proj.weight", {{Gathering::Again}}, ""}};
  FailureOr<Plan> shared = planner->plan(choices);
  ASSERT_TRUE(succeeded(shared));
  EXPECT_EQ(countGathers(*shared, "micro_last", "mlp.c_fc.weight"), 1);
  EXPECT_EQ(countGathers(*shared, "micro_last", "mlp.c_proj.weight"), 2);
  // It stays whole from one to the other.
  EXPECT_GT(shared->roles[0].arena.bytes, own->roles[0].arena.bytes);
}

TEST(PlannerTest, StagesHaveTheLayersThatWereChosen) {
  Compilation compilation(setups[4]);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  Choices choices;
  FailureOr<CompiledProgram> even = planner->compile(choices, /*generateCode=*/false);
  choices.layers = {3, 1};
  choices.timetable = "gpipe";
  FailureOr<CompiledProgram> said = planner->compile(choices, /*generateCode=*/false);
  FailureOr<Plan> planned = planner->plan(choices);
  ASSERT_TRUE(succeeded(even) && succeeded(said) && succeeded(planned));
  EXPECT_EQ(even->manifest.choices(), "timetable = '1f1b'\nlayers = [2, 2]\ngather_ahead = 2\nbucket_bytes = 'none'\nrecompute = 'cheap'\n");
  EXPECT_EQ(said->manifest.choices(), "timetable = 'gpipe'\nlayers = [3, 1]\ngather_ahead = 2\nbucket_bytes = 'none'\nrecompute = 'cheap'\n");
  EXPECT_EQ(said->manifest.stages(0).layers_size(), 3);
  for (int role : {0, 1})
    EXPECT_EQ(planned->roles[role].arena.bytes, said->manifest.roles(role).arena_bytes());
  // It is read back as it was.
  std::optional<Choices> again =
      parseChoices(said->manifest.choices(), "stored", {}, [](const llvm::Twine &text) { FAIL() << text.str(); });
  ASSERT_TRUE(again);
  FailureOr<CompiledProgram> replayed = planner->compile(*again, /*generateCode=*/false, /*isLast=*/true);
  ASSERT_TRUE(succeeded(replayed));
  EXPECT_EQ(replayed->manifest.SerializeAsString(), said->manifest.SerializeAsString());
}

} // namespace
} // namespace dtc::test
