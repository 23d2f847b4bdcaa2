// Training on a device whose memory the host cannot access, next to the same on a CPU: equal bits, and equal files.
#include "runtime/abi/roles.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/comm/staged.h"
#include "runtime/data/token_writer.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/program/train/step.h"
#include "test/e2e/compiled_model.h"
#include "test/runtime/device/far_device.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>
#include <thread>

namespace dtc::test {
namespace {

/// The results of a run.
struct Outcome {
  std::vector<double> numbers; ///< losses and norms of its steps, then the held-out loss
  std::string weights, moments;
};

class Devices : public testing::TestWithParam<std::tuple<const char *, Layout>> {
protected:
  explicit Devices(int64_t layers = 2, const Choices &choices = {})
      : compiled({.model = std::get<0>(GetParam()),
                  .mesh = layout().mesh,
                  .strategy = layout().strategy,
                  .accumulation = layout().accumulation,
                  .symbols = symbolsOf(layers),
                  .generateCode = true,
                  .expect = false,
                  .choices = choices}),
        library(compiled.sharedObject) {
    abi::Training &training = *compiled.manifest.mutable_training();
    training.set_global_batch(4 * layout().accumulation);
    training.set_sequence_length(8);
    training.set_accumulation(layout().accumulation);
    training.set_seed(7);
    training.set_learning_rate(0.01);
    training.set_schedule("constant");
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.push_back(static_cast<uint16_t>(i * i % 31 % 13));
    writeTokenFile(directory / "tokens.bin", tokens);
  }

  static std::map<std::string, int64_t> symbolsOf(int64_t layers) {
    std::map<std::string, int64_t> symbols = smallSymbols(std::get<0>(GetParam()));
    symbols["layers"] = layers;
    return symbols;
  }

  static const Layout &layout() { return std::get<1>(GetParam()); }

  std::unique_ptr<Device> make(bool far) const {
    auto resolve = [this](const abi::Kernel &kernel) {
      return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
    };
    if (far)
      return std::make_unique<FarDevice>(resolve);
    return std::make_unique<CpuDevice>(1, resolve);
  }

  Outcome train(bool far) {
    int ranks = Mesh(compiled.manifest.mesh()).ranks();
    InProcessJob job(ranks);
    std::vector<Outcome> outcomes(ranks);
    std::vector<std::string> failures(ranks);
    std::vector<std::unique_ptr<Arena>> stages; // outlive all ranks: when one fails, others may read its arena
    for (int rank = 0; far && rank < ranks; ++rank) {
      const abi::Role &role = abi::roleOf(compiled.manifest, rank);
      stages.push_back(std::make_unique<Arena>(role.arena_bytes(), role.shared_begin()));
    }
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          std::unique_ptr<Communicator> communicator;
          try {
            std::unique_ptr<Device> device = make(far);
            const abi::Role &role = abi::roleOf(compiled.manifest, rank);
            std::unique_ptr<Memory> memory = device->allocate(role.arena_bytes(), role.shared_begin());
            if (far)
              communicator =
                  std::make_unique<StagedCommunicator>(*device, *memory, *stages[rank], job.join(rank, *stages[rank]));
            else
              communicator = job.join(rank, *memory->host());
            outcomes[rank] = trainRank(*communicator, *device, *memory, directory / (far ? "far" : "near"));
          } catch (const std::exception &error) {
            failures[rank] = error.what();
            if (communicator)
              communicator->poison(error.what());
          }
        });
    }
    EXPECT_EQ(failures, std::vector<std::string>(ranks));
    for (const Outcome &outcome : outcomes)
      EXPECT_EQ(outcome.numbers, outcomes[0].numbers);
    return outcomes[0];
  }

  /// Three steps, a checkpoint, and the fourth step twice: directly after the third, and from the checkpoint.
  Outcome trainRank(Communicator &communicator, Device &device, Memory &memory, const std::string &folder) {
    const abi::Training &training = compiled.manifest.training();
    std::unique_ptr<Memory> hostMemory =
        device.allocateHost(abi::roleOf(compiled.manifest, communicator.rank()).host_bytes());
    Executor executor(compiled.manifest, communicator, device, memory, hostMemory.get());
    RankState state(compiled.manifest, communicator.rank(), device, memory);
    state.initialize(training.seed(), 2);
    TokenData data({directory / "tokens.bin"});
    Sampler sampler(data, {training.sequence_length(), 13, 0.2, training.seed()});
    StepRunner steps(executor, sampler, training);
    LossScale scale;
    Outcome outcome;
    auto step = [&](int64_t number) {
      StepResult result = steps.train(number, number * training.global_batch(), scale);
      outcome.numbers.push_back(result.loss);
      outcome.numbers.push_back(result.gradientNorm.value_or(-1));
    };
    for (int64_t number : {0, 1, 2})
      step(number);
    TrainerState trainer{.step = 3, .samples = 3 * training.global_batch(), .seed = 7, .sequenceLength = 8};
    std::string path = saveCheckpoint(state, communicator, folder, trainer, 0);
    step(3);
    loadCheckpoint(state, communicator, path);
    step(3);
    outcome.numbers.push_back(steps.evaluate());
    outcome.weights = readFile(path + "/model.safetensors");
    outcome.moments = readFile(path + "/optimizer.safetensors");
    return outcome;
  }

  CompiledModel compiled;
  KernelLibrary library;
  TemporaryDirectory directory;
};

TEST_P(Devices, TrainTheSameToTheBit) {
  ASSERT_TRUE(compiled.succeeded);
  Outcome near = train(/*far=*/false), far = train(/*far=*/true);
  ASSERT_EQ(near.numbers.size(), 11U);
  EXPECT_LT(near.numbers[4], near.numbers[0]) << "nothing was learnt";
  EXPECT_EQ(near.numbers[6], near.numbers[8]) << "the checkpoint holds another state";
  EXPECT_EQ(far.numbers, near.numbers);
  ASSERT_FALSE(near.weights.empty() || near.moments.empty());
  EXPECT_TRUE(far.weights == near.weights);
  EXPECT_TRUE(far.moments == near.moments);
}

/// What layers keep waits in the host's memory. On the far device, a copy that is not waited for never arrives.
struct Offloading : Devices {
  Offloading() : Devices(/*layers=*/4, choicesOf("offload")) {}

  static Choices choicesOf(const char *way) {
    Choices choices;
    choices.recompute = {{"*", *parseRecomputeRuns(way), ""}};
    return choices;
  }
};

TEST_P(Offloading, TrainsTheSameToTheBit) {
  ASSERT_TRUE(compiled.succeeded);
  EXPECT_GT(compiled.manifest.roles(0).host_bytes(), 0U);
  Outcome near = train(/*far=*/false), far = train(/*far=*/true);
  EXPECT_EQ(far.numbers, near.numbers);
  EXPECT_TRUE(far.weights == near.weights);
  EXPECT_TRUE(far.moments == near.moments);
}

const auto models = testing::Combine(testing::Values("gpt-small", "llama-small"),
                                     testing::Values(Layout{"one", "dp=1", "ddp", 2}, Layout{"dp2", "dp=2", "zero1", 2},
                                                     Layout{"tp2", "tp=2", "megatron", 1}));
INSTANTIATE_TEST_SUITE_P(Models, Devices, models, nameOf);
INSTANTIATE_TEST_SUITE_P(Models, Offloading, models, nameOf);

} // namespace
} // namespace dtc::test
