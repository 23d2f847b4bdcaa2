// Training in this process, by a program for the processor or for GPUs on the stand-in for NVIDIA's driver.
#pragma once

#include "runtime/abi/roles.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/comm/staged.h"
#include "runtime/data/token_writer.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/kernels/cuda/library.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/program/train/step.h"
#include "test/e2e/compiled_model.h"

#include <gtest/gtest.h>

#include <thread>

namespace dtc::test {

struct Case {
  const char *model;
  Layout layout;
  const char *compute;
  double tolerance;               ///< of losses, relative; in bf16 half a unit in its last place
  bool isOdd = false;             ///< odd sizes: rows, heads and slices begin at any element
  bool mayFuse = false;           ///< heads of eight elements, and no dropout: cuDNN supports their attention
  const char *timetable = "1f1b"; ///< of a pipeline
  int64_t layers = 2;
};

inline void PrintTo(const Case &each, std::ostream *out) { *out << each.model << " " << each.layout.name; }

constexpr int64_t Sequence = 8, Batch = 4;

/// A file of tokens that a model can learn.
inline void writeTokens(const std::string &path) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 2000; ++i)
    tokens.push_back(static_cast<uint16_t>(i * i % 31 % 13));
  writeTokenFile(path, tokens);
}

inline std::map<std::string, int64_t> symbolsOf(const Case &each) {
  std::map<std::string, int64_t> symbols = smallSymbols(each.model);
  symbols["layers"] = each.layers;
  if (each.mayFuse) {
    symbols["head_dim"] = 8;
    symbols["embed"] = 32;
    return symbols;
  }
  if (!each.isOdd) {
    symbols["mlp"] = 16; // a multiple of 8 on each of two ranks, for the epilogues of products
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
  std::unique_ptr<Memory> memory, hostMemory;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<RankState> state;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<StepRunner> steps;
  LossScale scale;
};

/// A program, and its ranks as threads; the ranks of one for GPUs share a GPU.
class Job {
public:
  /// `copies`: as CompileOptions has it.
  Job(const Case &each, bool isGpu, const std::string &tokens, bool graphs = true, std::optional<bool> copies = {},
      const Choices &choices = {})
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
                                                .target = isGpu ? "cuda:sm_90" : "native",
                                                .copies = copies,
                                                .timetable = each.timetable,
                                                .choices = choices}),
        library(isGpu ? std::string() : compiled.sharedObject), data({tokens}),
        ranks(Mesh(compiled.manifest.mesh()).ranks()), meeting(static_cast<int>(ranks.size())) {
    abi::Training &training = *compiled.manifest.mutable_training();
    training.set_global_batch(Batch * each.layout.accumulation);
    training.set_sequence_length(Sequence);
    training.set_accumulation(each.layout.accumulation);
    training.set_seed(7);
    training.set_learning_rate(each.mayFuse ? 0.001 : 0.01); // larger models would diverge, and differences grow
    training.set_schedule("constant");
    training.set_loss_scale_window(4);
    for (size_t i = 0; isGpu && i < ranks.size(); ++i) {
      const abi::Role &role = abi::roleOf(compiled.manifest, static_cast<int>(i));
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
  /// The loss scale of gradients in f16.
  void setLossScale(double value) {
    for (Rank &rank : ranks)
      rank.scale = {.value = value};
  }
  /// Steps that were not applied.
  int64_t skipped() const { return ranks.front().scale.skipped; }
  double evaluate() {
    return onAllRanks([](Rank &rank) { return rank.steps->evaluate(); });
  }

  /// The choices that a rank's device has made.
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
      rank.steps->refresh();
      return 0;
    });
  }

private:
  /// The result of the first rank's thread; all return the same.
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
    const abi::Role &role = abi::roleOf(compiled.manifest, number);
    rank.device = makeDevice(number);
    rank.memory = rank.device->allocate(role.arena_bytes(), role.shared_begin());
    if (isGpu)
      rank.communicator = std::make_unique<StagedCommunicator>(*rank.device, *rank.memory, *stages[number],
                                                               meeting.join(number, *stages[number]));
    else
      rank.communicator = meeting.join(number, *rank.memory->host());
    rank.hostMemory = rank.device->allocateHost(role.host_bytes());
    rank.executor = std::make_unique<Executor>(compiled.manifest, *rank.communicator, *rank.device, *rank.memory,
                                               rank.hostMemory.get());
    rank.state = std::make_unique<RankState>(compiled.manifest, number, *rank.device, *rank.memory);
    rank.state->initialize(training.seed(), 1);
    rank.sampler = std::make_unique<Sampler>(data, SamplerOptions{Sequence, 13, 0.2, training.seed()});
    rank.steps = std::make_unique<StepRunner>(*rank.executor, *rank.sampler, training);
    rank.steps->refresh();
  }

  std::unique_ptr<Device> makeDevice(int rank) {
    if (isGpu)
      return std::make_unique<CudaDevice>(compiled.manifest, compiled.sharedObject,
                                          cuda::LocalRank{rank, static_cast<int>(ranks.size()), /*sharesGpu=*/true},
                                          cuda::makeLibraryKernels(), graphs);
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
  std::vector<std::unique_ptr<Arena>> stages; // outlive all ranks: when one fails, others may be reading its arena
  std::vector<Rank> ranks;
  InProcessJob meeting;
};

} // namespace dtc::test
