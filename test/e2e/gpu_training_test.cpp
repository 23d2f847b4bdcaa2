// Training by a program for GPUs, on the stand-in for NVIDIA's driver, beside the same by a program for the processor.
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/in_process.h"
#include "runtime/data/token_file.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/kernels/kernels.h"
#include "runtime/program/kernel_library.h"
#include "runtime/program/step.h"
#include "test/e2e/compiled_model.h"
#include "test/gpu/stand_in/cpu_library.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

struct Case {
  const char *name, *model;
  int64_t accumulation;
  const char *compute;
  double tolerance;   ///< of losses and norms, relative; in bf16 half a unit of its last place
  bool isOdd = false; ///< sizes that divide by nothing: rows, heads and slices begin at any element
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.name; }

constexpr int64_t Sequence = 8, Batch = 4, Steps = 10;

std::map<std::string, int64_t> symbolsOf(const Case &each) {
  if (!each.isOdd)
    return smallSymbols(each.model);
  if (each.model == std::string("llama-small"))
    return {{"vocab", 13}, {"embed", 18},   {"layers", 2}, {"kv_heads", 1},
            {"group", 3},  {"head_dim", 6}, {"mlp", 11},   {"positions", 8}};
  return {{"vocab", 13}, {"embed", 15}, {"layers", 2}, {"heads", 3}, {"head_dim", 5}, {"mlp", 11}, {"positions", 8}};
}

/// A program for one rank, and a rank that runs it.
class Side {
public:
  Side(const Case &each, bool isGpu, const std::string &tokens)
      : isGpu(isGpu), compiled({.model = each.model,
                                .mesh = "dp=1",
                                .strategy = "ddp",
                                .accumulation = each.accumulation,
                                .batch = Batch,
                                .sequence = Sequence,
                                .symbols = symbolsOf(each),
                                .dropout = 0.1,
                                .generateCode = true,
                                .expect = false,
                                .compute = each.compute,
                                .target = isGpu ? "cuda:sm_90" : "native"}),
        library(isGpu ? std::string() : compiled.sharedObject), data({tokens}) {
    abi::Training &training = *compiled.manifest.mutable_training();
    training.set_global_batch(Batch * each.accumulation);
    training.set_sequence_length(Sequence);
    training.set_accumulation(each.accumulation);
    training.set_seed(7);
    training.set_learning_rate(0.01);
    training.set_beta1(0.9);
    training.set_beta2(0.95);
    training.set_schedule("constant");
    const abi::Role &role = roleOf(compiled.manifest, 0);
    device = makeDevice();
    memory = device->allocate(role.arena_bytes(), role.shared_begin());
    communicator = job.join(0, isGpu ? nothing : *memory->host());
    executor = std::make_unique<Executor>(compiled.manifest, *communicator, *device, *memory);
    state = std::make_unique<RankState>(compiled.manifest, 0, *device, *memory);
    state->initialize(training.seed(), 1);
    sampler = std::make_unique<Sampler>(data, SamplerOptions{Sequence, 13, 0.2, training.seed()});
    steps = std::make_unique<StepRunner>(*executor, *sampler, training);
  }

  /// Losses and norms of steps [begin, end).
  std::vector<double> train(int64_t begin, int64_t end) {
    std::vector<double> numbers;
    for (int64_t number = begin; number < end; ++number) {
      StepResult result = steps->train(number, number * compiled.manifest.training().global_batch(), scale);
      numbers.push_back(result.loss);
      numbers.push_back(result.gradientNorm.value_or(-1));
    }
    return numbers;
  }
  double evaluate() { return steps->evaluate(); }

  std::string save(const std::string &folder, int64_t step) {
    TrainerState trainer{.step = step,
                         .samples = step * compiled.manifest.training().global_batch(),
                         .seed = 7,
                         .sequenceLength = Sequence};
    return saveCheckpoint(*state, *communicator, folder, trainer, 0);
  }
  void load(const std::string &path) { loadCheckpoint(*state, *communicator, path); }

private:
  std::unique_ptr<Device> makeDevice() {
    if (isGpu)
      return std::make_unique<CudaDevice>(compiled.manifest, compiled.sharedObject, 0, 1, findCpuLibraryFunction);
    return std::make_unique<CpuDevice>(1, [this](const abi::Kernel &kernel) {
      return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
    });
  }

  bool isGpu;

public:
  CompiledModel compiled;

private:
  KernelLibrary library;
  TokenData data;
  InProcessJob job{1};
  Arena nothing{0, 0};
  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<RankState> state;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<StepRunner> steps;
  LossScale scale;
};

class GpuTraining : public testing::TestWithParam<Case> {
protected:
  GpuTraining() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.push_back(static_cast<uint16_t>(i * i % 31 % 13));
    writeTokenFile(directory / "tokens.bin", tokens);
  }

  static void expectClose(const std::vector<double> &got, const std::vector<double> &want) {
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(got[i] - want[i]) / std::abs(want[i]));
      EXPECT_NEAR(got[i], want[i], GetParam().tolerance * std::abs(want[i])) << "number " << i;
    }
    RecordProperty("largest_relative_difference", std::to_string(largest));
  }

  TemporaryDirectory directory;
};

// Dropout, clipping and, in some, accumulation included.
TEST_P(GpuTraining, LosesAsTheProcessorDoes) {
  Side cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  ASSERT_TRUE(cpu.compiled.succeeded && gpu.compiled.succeeded);
  std::vector<double> want = cpu.train(0, Steps), got = gpu.train(0, Steps);
  EXPECT_LT(want[2 * Steps - 2], want[0]) << "nothing was learnt";
  expectClose(got, want);
  expectClose({gpu.evaluate()}, {cpu.evaluate()});
}

// Each goes on from what the other has written.
TEST_P(GpuTraining, ReadsTheProcessorsCheckpointsAndWritesItsOwn) {
  Side cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  cpu.train(0, 2);
  gpu.load(cpu.save(directory / "cpu", 2));
  std::vector<double> got = gpu.train(2, 4), want = cpu.train(2, 4);
  expectClose(got, want);
  cpu.load(gpu.save(directory / "gpu", 4));
  expectClose(gpu.train(4, 6), cpu.train(4, 6));
}

INSTANTIATE_TEST_SUITE_P(Models, GpuTraining,
                         testing::Values(Case{"gpt", "gpt-small", 1, "f32", 1e-5},
                                         Case{"gpt_accumulated", "gpt-small", 2, "f32", 1e-5},
                                         Case{"llama", "llama-small", 1, "f32", 1e-5},
                                         Case{"llama_accumulated", "llama-small", 2, "f32", 1e-5},
                                         Case{"gpt_odd", "gpt-small", 1, "f32", 1e-5, true},
                                         Case{"llama_odd", "llama-small", 1, "f32", 1e-5, true},
                                         Case{"gpt_bf16", "gpt-small", 2, "bf16", 2e-3},
                                         Case{"llama_bf16", "llama-small", 2, "bf16", 2e-3},
                                         Case{"gpt_odd_bf16", "gpt-small", 1, "bf16", 2e-3, true}),
                         [](const testing::TestParamInfo<Case> &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
