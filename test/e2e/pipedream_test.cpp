// PipeDream: the command lists of all ranks, over several steps in a row, against a plain simulation of its definition,
// in f64, with dropout and ignored targets; and what stages keep.
//
// In step k, stage s computes with the parameters that have had max(0, k - d) of the updates since the steps began,
// where d = p - 1 - s; its update changes the newest. So a gradient is that of whole functions whose parameters are
// each of the version of their stage.
#include "test/e2e/compiled_model.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/outputs.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/written.h"
#include "timing/timetables/pipedream.h"
#include "tools/verify/CommandSubject.h"
#include "tools/verify/StepData.h"

#include <gmock/gmock.h>

#include <cmath>

namespace dtc::test {
namespace {

namespace pipedream = timetables::pipedream;
using mlir::dt::HostTensor;
using mlir::dt::PortKind;
using verify::TensorKey;

struct Pipeline {
  const char *name, *mesh, *strategy;
  int64_t stages;
  const char *compute = "f32";
};
constexpr Pipeline pipelines[] = {{"pp2", "pp=2", "ddp", 2},
                                  {"pp4", "pp=4", "ddp", 4},
                                  {"dp2_pp2", "dp=2,pp=2", "ddp", 2},
                                  {"pp2_tp2", "pp=2,tp=2", "megatron", 2},
                                  {"pp4_bf16", "pp=4", "ddp", 4, "bf16"}};
void PrintTo(const Pipeline &pipeline, std::ostream *out) { *out << pipeline.name; }

constexpr int64_t Steps = 8;
constexpr const char *Untied = "test/e2e/pipedream/gpt-untied";

ModelSetup setupOf(const std::string &model, const Pipeline &pipeline) {
  std::map<std::string, int64_t> symbols = smallSymbols(model);
  symbols["layers"] = 4;
  return {.model = model,
          .mesh = pipeline.mesh,
          .strategy = pipeline.strategy,
          .symbols = symbols,
          .compute = pipeline.compute,
          .copies = pipeline.compute != std::string_view("f32"),
          .timetable = "pipedream"};
}

const abi::Tensor *tensorOf(const abi::Role &role, abi::Tensor::Kind kind, const std::string &name) {
  for (const abi::Tensor &tensor : role.tensors())
    if (tensor.kind() == kind && tensor.name() == name)
      return &tensor;
  return nullptr;
}

int64_t stageOf(const abi::Manifest &manifest, const std::string &parameter) {
  for (int stage = 0; stage < manifest.roles_size(); ++stage)
    if (tensorOf(manifest.roles(stage), abi::Tensor::PARAMETER, parameter))
      return stage;
  throw std::logic_error("no stage has " + parameter);
}

/// The definition, on whole tensors.
class Simulation {
public:
  using State = std::map<TensorKey, HostTensor>;
  /// `lag`: added to each stage's delay.
  Simulation(CompiledModel &model, int64_t lag = 0) : model(model), program(*model.logical), lag(lag) {
    for (const verify::LogicalProgram::Port &port : program.arguments("update"))
      if (port.key.isState())
        newest[port.key] = makeState(port, /*draw=*/0);
    initial = newest;
    for (const auto &[key, value] : newest)
      if (key.kind == PortKind::Parameter)
        versions[key] = {value};
  }

  /// What entries of a step read that the host fills.
  std::vector<std::pair<TensorKey, HostTensor>> inputsOf(int64_t step) const {
    std::map<TensorKey, HostTensor> inputs;
    for (const char *function : {"micro", "update"})
      for (const verify::LogicalProgram::Port &port : program.arguments(function))
        if (port.key.kind == PortKind::Input)
          inputs.try_emplace(port.key, makeInput(port, /*microBatch=*/0, program.samples(),
                                                 verify::vocabularyOf(model.manifest), static_cast<uint64_t>(step)));
    return {inputs.begin(), inputs.end()};
  }

  void run(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      for (const auto &[key, value] : inputsOf(step))
        program.tensors[key] = value;
      for (const auto &[key, own] : versions) {
        int64_t delay = pipedream::delayOf(model.manifest.stages_size(), stageOf(model.manifest, key.name)) + lag;
        program.tensors[key] = own[static_cast<size_t>(std::max<int64_t>(0, step - delay))];
      }
      program.run("micro");
      program.run("reduce");
      losses.push_back(program.tensors.at({PortKind::Output, std::string(abi::output::lossSum.name), ""})[0]);
      for (const auto &[key, value] : newest)
        program.tensors[key] = value;
      program.run("update");
      for (auto &[key, value] : newest)
        value = program.tensors.at(key);
      for (auto &[key, own] : versions)
        own.push_back(newest.at(key));
    }
  }

  State initial, newest;
  std::vector<double> losses;

private:
  CompiledModel &model;
  verify::LogicalProgram program;
  int64_t lag;
  std::map<TensorKey, std::vector<HostTensor>> versions; // of each parameter: after each number of updates
};

struct Lists : verify::CommandSubject {
  using CommandSubject::CommandSubject;
  using Subject::cut;
};

class PipeDreamLists : public testing::TestWithParam<std::tuple<const char *, Pipeline>> {
protected:
  void SetUp() override {
    auto [model, pipeline] = GetParam();
    compiled = std::make_unique<CompiledModel>(setupOf(model, pipeline));
    ASSERT_TRUE(compiled->succeeded);
  }

  /// Runs the lists from the simulation's initial state.
  void run(const Simulation &simulation, int64_t steps) {
    subject.emplace(compiled->manifest, compiled->context);
    for (const auto &[key, value] : simulation.initial)
      subject->provide(key, value);
    subject->runSteps(abi::refreshTimetable, verify::CommandSubject::Inputs(1)); // makes copies in 16 bits
    verify::CommandSubject::Inputs inputs;
    for (int64_t step = 0; step < steps; ++step)
      inputs.push_back(simulation.inputsOf(step));
    losses.clear();
    TensorKey lossSum{PortKind::Output, std::string(abi::output::lossSum.name), ""};
    subject->runSteps(abi::stepTimetable, inputs, [&](int64_t rank, const abi::TimedEntry &timed) {
      if (rank == 0 && timed.entry->step() == 0 && isExchange(timed.entry->list()))
        losses.push_back(subject->readOn(0, lossSum)[0]);
    });
    subject->finish();
  }

  /// Compares all parameters and slots: their pieces on all ranks, by how much they have changed.
  void expectStateOf(const Simulation &simulation, const std::string &what) {
    for (const auto &[key, whole] : simulation.newest) {
      verify::Pieces pieces = subject->read(key);
      mlir::dt::HostTensors expected = Lists::cut(key, whole, pieces.sharding, pieces.mesh),
                            before = Lists::cut(key, simulation.initial.at(key), pieces.sharding, pieces.mesh);
      double difference = 0, change = 0;
      for (size_t rank = 0; rank < expected.size(); ++rank)
        for (int64_t i = 0; i < expected[rank].size(); ++i) {
          difference += std::pow(pieces.ofRanks[rank][i] - expected[rank][i], 2);
          change += std::pow(expected[rank][i] - before[rank][i], 2);
        }
      EXPECT_GT(change, 0) << key.describe();
      EXPECT_LE(std::sqrt(difference), 1e-8 * std::sqrt(change)) << what << ": " << key.describe();
    }
  }

  void expectLossesOf(const Simulation &simulation, const std::string &what) {
    ASSERT_EQ(losses.size(), simulation.losses.size()) << what;
    for (size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(losses[step], simulation.losses[step], 1e-9 * std::abs(simulation.losses[step])) << what << step;
  }

  bool isExchange(const std::string &list) const {
    for (const abi::CommandList &each : compiled->manifest.lists())
      if (each.name() == list)
        return each.duty() == abi::CommandList::EXCHANGE;
    return false;
  }

  std::unique_ptr<CompiledModel> compiled;
  std::optional<Lists> subject;
  std::vector<double> losses;
};

TEST_P(PipeDreamLists, ComputeWhatTheDefinitionSays) {
  for (int64_t steps : {int64_t(1), int64_t(3), Steps}) {
    Simulation simulation(*compiled);
    simulation.run(steps);
    run(simulation, steps);
    expectLossesOf(simulation, std::to_string(steps) + " steps");
    expectStateOf(simulation, std::to_string(steps) + " steps");
  }
}

// The comparison above would notice stages that are one update late.
TEST_P(PipeDreamLists, DifferWhereDelaysDo) {
  Simulation right(*compiled), late(*compiled, /*lag=*/1);
  right.run(Steps);
  late.run(Steps);
  double most = 0;
  for (size_t step = 0; step < right.losses.size(); ++step)
    most = std::max(most, std::abs(late.losses[step] / right.losses[step] - 1));
  EXPECT_GT(most, 1e-7);
}

// A step by itself has no delays: dtc verify compares all its tensors with whole functions'.
TEST_P(PipeDreamLists, OfOneStepAreVerified) {
  ASSERT_TRUE(compiled->expectation);
  verify::VerifyReport report = verify::verify(*compiled->expectation, compiled->manifest);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.comparisons.size(), static_cast<size_t>(compiled->manifest.parameters_size()));
}

INSTANTIATE_TEST_SUITE_P(Models, PipeDreamLists,
                         testing::Combine(testing::Values(Untied, "llama-small"), testing::ValuesIn(pipelines)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param) == std::string_view(Untied) ? "gpt" : "llama") +
                                  "_" + std::get<1>(info.param).name;
                         });

//===----------------------------------------------------------------------===//
// What stages keep
//===----------------------------------------------------------------------===//

const abi::Space &spaceOf(const abi::Role &role, std::string_view name) {
  for (const abi::Space &space : role.spaces())
    if (space.name() == name)
      return space;
  throw std::logic_error("no such space");
}

bool isParameter(const abi::Role &role, uint64_t address) {
  return std::ranges::any_of(role.tensors(), [&](const abi::Tensor &tensor) {
    return tensor.kind() == abi::Tensor::PARAMETER && address >= tensor.address() &&
           address - tensor.address() < abi::bytesOf(tensor);
  });
}

/// The list with that duty in the role's step.
const abi::CommandList &listOf(const abi::Manifest &manifest, const abi::Role &role, abi::CommandList::Duty duty) {
  for (const abi::TimetableEntry &entry : abi::timetableOf(role, abi::stepTimetable).period())
    for (const abi::CommandList &list : manifest.lists())
      if (list.name() == entry.list() && list.duty() == duty)
        return list;
  throw std::logic_error("no such list");
}

/// Bytes of parameters that a forward pass copies into its stash: by kernels that move a whole parameter there.
uint64_t stashedWeights(const abi::Manifest &manifest, const abi::Role &role) {
  uint64_t bytes = 0;
  for (const abi::Command &command : listOf(manifest, role, abi::CommandList::FORWARD_PASS).commands()) {
    if (!command.has_launch() || command.work().kind() != abi::Work::MOVEMENT)
      continue;
    bool ofParameter = false;
    uint64_t moved = 0;
    abi::forEachRead(manifest, command, [&](uint64_t address, uint64_t) { ofParameter |= isParameter(role, address); });
    abi::forEachWritten(manifest, command, [&](uint64_t address, uint64_t size) {
      moved += role.spaces(static_cast<int>(abi::spaceOf(address))).name() == "stash" ? size : 0;
    });
    bytes += ofParameter ? moved : 0;
  }
  return bytes;
}

bool readsParameters(const abi::Manifest &manifest, const abi::Role &role, const abi::CommandList &list) {
  bool reads = false;
  for (const abi::Command &command : list.commands())
    abi::forEachRead(manifest, command, [&](uint64_t address, uint64_t) { reads |= isParameter(role, address); });
  return reads;
}

// Stage s of p keeps p - s versions of what its backward pass reads of its parameters, together with as many stashes of
// activations, which are as large as in any other timetable. The last stage reads its parameters in place.
TEST(PipeDreamStash, HoldsTheVersionsOfEachStage) {
  ModelSetup setup = setupOf(Untied, pipelines[1]);
  setup.expect = false;
  CompiledModel model(setup);
  setup.timetable = "1f1b";
  CompiledModel plain(setup);
  ASSERT_TRUE(model.succeeded && plain.succeeded);
  for (int stage = 0; stage < 4; ++stage) {
    const abi::Role &role = model.manifest.roles(stage);
    const abi::Space &stash = spaceOf(role, "stash");
    EXPECT_EQ(stash.places(), pipedream::versionsOf(4, stage)) << stage;
    uint64_t parameters = 0, copies = 0, weights = stashedWeights(model.manifest, role);
    for (const abi::Tensor &tensor : role.tensors())
      if (tensor.kind() == abi::Tensor::PARAMETER) {
        parameters += abi::bytesOf(tensor);
        ++copies;
      }
    bool isLast = stage == 3;
    EXPECT_EQ(weights > 0, !isLast) << stage;
    EXPECT_LE(weights, parameters) << stage;
    EXPECT_EQ(readsParameters(model.manifest, role, listOf(model.manifest, role, abi::CommandList::BACKWARD_PASS)),
              isLast);
    uint64_t activations = spaceOf(plain.manifest.roles(stage), "stash").stride(), gaps = 64 * (copies + 4);
    EXPECT_GE(stash.stride(), weights) << stage;
    EXPECT_LE(stash.stride(), activations + weights + gaps) << stage;
  }
}

} // namespace
} // namespace dtc::test
