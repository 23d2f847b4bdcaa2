// Training by a program for GPUs, on the stand-in for NVIDIA's driver, beside the same by a program for the processor.
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/in_process.h"
#include "runtime/comm/staged.h"
#include "runtime/data/token_file.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/kernels/kernels.h"
#include "runtime/program/kernel_library.h"
#include "runtime/program/step.h"
#include "test/e2e/compiled_model.h"
#include "test/gpu/variable.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <thread>

namespace dtc::test {
namespace {

struct Case {
  const char *model;
  Layout layout;
  const char *compute;
  double tolerance;     ///< of losses, relative; in bf16 half a unit of its last place
  bool isOdd = false;   ///< sizes that divide by nothing: rows, heads and slices begin at any element
  bool mayFuse = false; ///< heads of eight elements, and no dropout: cuDNN has attention for them
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.model << " " << each.layout.name; }

constexpr int64_t Sequence = 8, Batch = 4, Steps = 10;

std::map<std::string, int64_t> symbolsOf(const Case &each) {
  if (each.mayFuse) {
    std::map<std::string, int64_t> symbols = smallSymbols(each.model);
    symbols["head_dim"] = 8;
    symbols["embed"] = 32;
    return symbols;
  }
  if (!each.isOdd) {
    std::map<std::string, int64_t> symbols = smallSymbols(each.model);
    symbols["mlp"] = 16; // of each of two ranks a multiple of 8, for the epilogues of products
    return symbols;
  }
  if (each.model == std::string("llama-small"))
    return {{"vocab", 13}, {"embed", 18},   {"layers", 2}, {"kv_heads", 1},
            {"group", 3},  {"head_dim", 6}, {"mlp", 11},   {"positions", 8}};
  return {{"vocab", 13}, {"embed", 15}, {"layers", 2}, {"heads", 3}, {"head_dim", 5}, {"mlp", 11}, {"positions", 8}};
}

/// A rank of a program.
struct Rank {
  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<RankState> state;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<StepRunner> steps;
  LossScale scale;
};

/// A program, and its ranks as threads; those of one for GPUs share one.
class Job {
public:
  Job(const Case &each, bool isGpu, const std::string &tokens, bool graphs = true)
      : isGpu(isGpu), graphs(graphs), compiled({.model = each.model,
                                                .mesh = each.layout.mesh,
                                                .strategy = each.layout.strategy,
                                                .accumulation = each.layout.accumulation,
                                                .batch = Batch,
                                                .sequence = Sequence,
                                                .symbols = symbolsOf(each),
                                                .dropout = each.mayFuse ? 0 : 0.1,
                                                .generateCode = true,
                                                .expect = false,
                                                .compute = each.compute,
                                                .target = isGpu ? "cuda:sm_90" : "native"}),
        library(isGpu ? std::string() : compiled.sharedObject), data({tokens}),
        ranks(Mesh(compiled.manifest.mesh()).ranks()), meeting(static_cast<int>(ranks.size())) {
    abi::Training &training = *compiled.manifest.mutable_training();
    training.set_global_batch(Batch * each.layout.accumulation);
    training.set_sequence_length(Sequence);
    training.set_accumulation(each.layout.accumulation);
    training.set_seed(7);
    training.set_learning_rate(each.mayFuse ? 0.001 : 0.01); // larger models would diverge, and differences with them
    training.set_beta1(0.9);
    training.set_beta2(0.95);
    training.set_schedule("constant");
    for (size_t i = 0; isGpu && i < ranks.size(); ++i) {
      const abi::Role &role = roleOf(compiled.manifest, static_cast<int>(i));
      stages.push_back(std::make_unique<Arena>(role.arena_bytes(), role.shared_begin()));
    }
    onAllRanks([&](Rank &rank) {
      set(rank, static_cast<int>(&rank - ranks.data()));
      return 0;
    });
  }

  /// Losses and norms of steps [begin, end).
  std::vector<double> train(int64_t begin, int64_t end) {
    return onAllRanks([&](Rank &rank) {
      std::vector<double> numbers;
      for (int64_t number = begin; number < end; ++number) {
        StepResult result = rank.steps->train(number, number * compiled.manifest.training().global_batch(), rank.scale);
        numbers.push_back(result.loss);
        numbers.push_back(result.gradientNorm.value_or(-1));
      }
      return numbers;
    });
  }
  double evaluate() {
    return onAllRanks([](Rank &rank) { return rank.steps->evaluate(); });
  }

  /// What a rank's device has decided.
  std::vector<std::string> takeNotes() { return ranks[0].device->takeNotes(); }

  std::string save(const std::string &folder, int64_t step) {
    TrainerState trainer{.step = step,
                         .samples = step * compiled.manifest.training().global_batch(),
                         .seed = 7,
                         .sequenceLength = Sequence};
    return onAllRanks([&](Rank &rank) { return saveCheckpoint(*rank.state, *rank.communicator, folder, trainer, 0); });
  }
  void load(const std::string &path) {
    onAllRanks([&](Rank &rank) {
      loadCheckpoint(*rank.state, *rank.communicator, path);
      return 0;
    });
  }

private:
  /// What the first rank's thread returns; all return the same.
  template <typename Body> std::invoke_result_t<Body, Rank &> onAllRanks(Body body) {
    std::vector<std::invoke_result_t<Body, Rank &>> results(ranks.size());
    std::vector<std::string> failures(ranks.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < ranks.size(); ++i)
        threads.emplace_back([&, i] {
          try {
            results[i] = body(ranks[i]);
          } catch (const std::exception &error) {
            failures[i] = error.what();
            if (ranks[i].communicator)
              ranks[i].communicator->poison(error.what());
          }
        });
    }
    EXPECT_EQ(failures, std::vector<std::string>(ranks.size()));
    for (const auto &result : results)
      EXPECT_EQ(result, results[0]);
    return results[0];
  }

  void set(Rank &rank, int number) {
    const abi::Training &training = compiled.manifest.training();
    const abi::Role &role = roleOf(compiled.manifest, number);
    rank.device = makeDevice(number);
    rank.memory = rank.device->allocate(role.arena_bytes(), role.shared_begin());
    if (isGpu)
      rank.communicator = std::make_unique<StagedCommunicator>(*rank.device, *rank.memory, *stages[number],
                                                               meeting.join(number, *stages[number]));
    else
      rank.communicator = meeting.join(number, *rank.memory->host());
    rank.executor = std::make_unique<Executor>(compiled.manifest, *rank.communicator, *rank.device, *rank.memory);
    rank.state = std::make_unique<RankState>(compiled.manifest, number, *rank.device, *rank.memory);
    rank.state->initialize(training.seed(), 1);
    rank.sampler = std::make_unique<Sampler>(data, SamplerOptions{Sequence, 13, 0.2, training.seed()});
    rank.steps = std::make_unique<StepRunner>(*rank.executor, *rank.sampler, training);
  }

  std::unique_ptr<Device> makeDevice(int rank) {
    if (isGpu)
      return std::make_unique<CudaDevice>(compiled.manifest, compiled.sharedObject,
                                          cuda::LocalRank{rank, static_cast<int>(ranks.size()), /*sharesGpu=*/true},
                                          graphs);
    return std::make_unique<CpuDevice>(1, [this](const abi::Kernel &kernel) {
      return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
    });
  }

  bool isGpu, graphs;

public:
  CompiledModel compiled;

private:
  KernelLibrary library;
  TokenData data;
  std::vector<std::unique_ptr<Arena>> stages; // outlive all ranks: when one fails, others may be reading its own
  std::vector<Rank> ranks;
  InProcessJob meeting;
};

class GpuTraining : public testing::TestWithParam<Case> {
protected:
  GpuTraining() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.push_back(static_cast<uint16_t>(i * i % 31 % 13));
    writeTokenFile(directory / "tokens.bin", tokens);
  }

  /// Losses and norms in turn. Norms may differ twice as much: AdamW moves a weight whose gradient is hardly more than
  /// rounding as far as any other, of which the loss feels nothing, but the next gradients do.
  static void expectClose(const std::vector<double> &got, const std::vector<double> &want) {
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      bool isNorm = i % 2 == 1;
      if (!isNorm)
        largest = std::max(largest, std::abs(got[i] - want[i]) / std::abs(want[i]));
      EXPECT_NEAR(got[i], want[i], (isNorm ? 2 : 1) * GetParam().tolerance * std::abs(want[i])) << "number " << i;
    }
    RecordProperty("largest_relative_difference", fmt::format("{:.2g}", largest));
  }

  TemporaryDirectory directory;
};

// Dropout, clipping and, in some, accumulation included.
TEST_P(GpuTraining, LosesAsTheProcessorDoes) {
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  ASSERT_TRUE(cpu.compiled.succeeded && gpu.compiled.succeeded);
  std::vector<double> want = cpu.train(0, Steps), got = gpu.train(0, Steps);
  EXPECT_LT(want[2 * Steps - 2], want[0]) << "nothing was learnt";
  expectClose(got, want);
  expectClose({gpu.evaluate()}, {cpu.evaluate()});
}

/// How often a list launches each library kernel, by what its symbol says.
std::map<std::string, int> libraryLaunches(const abi::Manifest &manifest, std::string_view list) {
  std::map<std::string, int> counts;
  for (const abi::CommandList &each : manifest.roles(0).lists())
    for (const abi::Command &command : each.commands())
      if (each.name() == list && command.has_launch())
        if (const abi::Kernel &kernel = manifest.kernels(int(command.launch().kernel())); kernel.library())
          ++counts[kernel.symbol()];
  std::erase_if(counts, [](const auto &count) {
    return !count.first.starts_with("dtc_cuda_product") && count.first != "dtc_cuda_gemm";
  });
  return counts;
}

using Counts = std::map<std::string, int>;

// Two layers: of each the projection to q, k and v has a bias alone, and the hidden layer of the MLP GELU. The other
// two biases are of the residuals' kernels. A micro-batch after the first adds to five gradients: four of each layer
// and the embedding's.
TEST(GpuProducts, TakeTheirEpilogues) {
  for (const char *compute : {"f32", "bf16"}) {
    SCOPED_TRACE(compute);
    Layout accumulated = {"accumulated", "dp=1", "ddp", 2};
    std::map<std::string, int64_t> symbols = symbolsOf({"gpt-small", accumulated, compute, 0});
    symbols["vocab"] = 16; // else rows of logits are lengthened, and the embedding's gradient is a part of a product
    CompiledModel gpt({.model = "gpt-small",
                       .mesh = "dp=1",
                       .strategy = "ddp",
                       .accumulation = 2,
                       .batch = Batch,
                       .sequence = Sequence,
                       .symbols = symbols,
                       .dropout = 0.1,
                       .generateCode = false,
                       .expect = false,
                       .compute = compute,
                       .target = "cuda:sm_90"});
    ASSERT_TRUE(gpt.succeeded);
    Counts forward = {{"dtc_cuda_product$bias", 2}, {"dtc_cuda_product$gelu_bias", 2}, {"dtc_cuda_gemm", 2 * 2 + 1}};
    EXPECT_EQ(libraryLaunches(gpt.manifest, "eval"), forward);
    Counts first = {{"dtc_cuda_product$bias", 2},
                    {"dtc_cuda_product$gelu_aux_bias", 2},
                    {"dtc_cuda_product$gelu_gradient", 2},
                    {"dtc_cuda_gemm", 2 * (2 + 3 + 4) + 1 + 2}};
    EXPECT_EQ(libraryLaunches(gpt.manifest, "micro"), first);
    Counts last = first;
    last["dtc_cuda_product$accumulate"] = 2 * 4 + 1;
    last["dtc_cuda_gemm"] -= 2 * 4 + 1;
    EXPECT_EQ(libraryLaunches(gpt.manifest, "micro_last"), last);
  }
}

class GpuCheckpoints : public GpuTraining {};

// Each goes on from what the other has written.
TEST_P(GpuCheckpoints, ReadsTheProcessorsCheckpointsAndWritesItsOwn) {
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin"), gpu(GetParam(), true, directory / "tokens.bin");
  cpu.train(0, 2);
  gpu.load(cpu.save(directory / "cpu", 2));
  std::vector<double> got = gpu.train(2, 4), want = cpu.train(2, 4);
  expectClose(got, want);
  cpu.load(gpu.save(directory / "gpu", 4));
  expectClose(gpu.train(4, 6), cpu.train(4, 6));
}

class GpuAttentionOfCudnn : public GpuTraining {};

TEST_P(GpuAttentionOfCudnn, IsUsedWhereItIsThereAndMissedByNobody) {
  using testing::AllOf, testing::Contains, testing::HasSubstr, testing::Not;
  Job cpu(GetParam(), /*isGpu=*/false, directory / "tokens.bin");
  std::vector<double> want = cpu.train(0, Steps);
  auto isSaid = [](const char *direction, const char *what) {
    return Contains(
        AllOf(HasSubstr(std::string("dtc_cuda_attention_") + direction + "$bf16_8_causal_"), HasSubstr(what)));
  };
  Job with(GetParam(), /*isGpu=*/true, directory / "tokens.bin");
  expectClose(with.train(0, Steps), want);
  expectClose({with.evaluate()}, {cpu.evaluate()});
  std::vector<std::string> notes = with.takeNotes();
  for (const char *direction : {"forward", "backward"}) {
    EXPECT_THAT(notes, isSaid(direction, "is cuDNN's"));
    EXPECT_THAT(notes, Not(isSaid(direction, "the program's own")));
  }
  std::vector<std::vector<double>> own;
  for (auto [setting, words] : {std::pair("refuses", "is the program's own: cuDNN has no kernels for it"),
                                std::pair("fails", "is the program's own: cannot launch"),
                                std::pair("version=91500", "attention runs in the program's own kernels: ")}) {
    Variable variable("DTC_STAND_IN_CUDNN", setting);
    Job without(GetParam(), /*isGpu=*/true, directory / "tokens.bin");
    own.push_back(without.train(0, Steps));
    EXPECT_THAT(without.takeNotes(), AllOf(Contains(HasSubstr(words)), Not(Contains(HasSubstr("is cuDNN's")))));
  }
  expectClose(own[0], want);
  EXPECT_EQ(own[1], own[0]);
  EXPECT_EQ(own[2], own[0]);
}

class GpuGraphs : public GpuTraining {};

TEST_P(GpuGraphs, ChangeNothing) {
  Job with(GetParam(), /*isGpu=*/true, directory / "tokens.bin", /*graphs=*/true);
  Job without(GetParam(), /*isGpu=*/true, directory / "tokens.bin", /*graphs=*/false);
  EXPECT_EQ(with.train(0, 5), without.train(0, 5));
  EXPECT_EQ(with.evaluate(), without.evaluate());
}

const Layout layouts[] = {{"one", "dp=1", "ddp", 1},        {"accumulated", "dp=1", "ddp", 2},
                          {"ddp", "dp=2", "ddp", 1},        {"megatron", "tp=2", "megatron", 1},
                          {"sp", "tp=2", "megatron-sp", 1}, {"zero1", "dp=2", "zero1", 2},
                          {"zero3", "dp=2", "zero3", 1},    {"zero3_tp", "dp=2,tp=2", "zero3+megatron", 1}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *model : {"gpt-small", "llama-small"})
    for (const Layout &layout : layouts)
      all.push_back({model, layout, "f32", 1e-5});
  for (const char *model : {"gpt-small", "llama-small"}) {
    all.push_back({model, layouts[0], "f32", 1e-5, /*isOdd=*/true});
    all.push_back({model, layouts[1], "bf16", 2e-3});
  }
  all.push_back({"gpt-small", layouts[0], "bf16", 2e-3, /*isOdd=*/true});
  return all;
}

std::string nameOfCase(const testing::TestParamInfo<Case> &info) {
  return std::string(info.param.model, 3) + "_" + info.param.layout.name + "_" + info.param.compute +
         (info.param.isOdd ? "_odd" : "");
}

INSTANTIATE_TEST_SUITE_P(Models, GpuTraining, testing::ValuesIn(cases()), nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuCheckpoints,
                         testing::Values(Case{"gpt-small", layouts[1], "f32", 1e-5},
                                         Case{"llama-small", layouts[7], "f32", 1e-5}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuAttentionOfCudnn,
                         testing::Values(Case{"gpt-small", layouts[1], "bf16", 2e-3, false, /*mayFuse=*/true},
                                         Case{"llama-small", layouts[0], "bf16", 2e-3, false, /*mayFuse=*/true},
                                         Case{"llama-small", layouts[4], "bf16", 2e-3, false, /*mayFuse=*/true}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Models, GpuGraphs,
                         testing::Values(Case{"llama-small", layouts[1], "f32", 0},
                                         Case{"gpt-small", layouts[5], "f32", 0},
                                         Case{"llama-small", layouts[1], "bf16", 0, false, /*mayFuse=*/true}),
                         nameOfCase);

} // namespace
} // namespace dtc::test
