#include "runtime/program/train/state_writers.h"

#include "runtime/checkpoint/state.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/data/token_writer.h"
#include "runtime/device/cpu_device.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/program/train/step.h"
#include "test/runtime/program/toy_model.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

using Lists = std::set<std::string>;

Lists writersOf(const abi::Manifest &manifest) { return listsThatWriteState(manifest, manifest.roles(0)); }

const abi::Tensor &tensorOf(const abi::Manifest &manifest, abi::Tensor::Kind kind) {
  return *std::ranges::find(manifest.roles(0).tensors(), kind, &abi::Tensor::kind);
}

TEST(StateWriters, AreTheListsOfTheOptimizer) {
  for (const ToyOptions &options : {ToyOptions{}, ToyOptions{.dp = 2, .tp = 2}, ToyOptions{.accumulation = 2}})
    EXPECT_EQ(writersOf(toyManifest(options)), Lists{"turn"});
}

/// The writers when list 0 has one more command, which writes `bytes` from `offset` on.
Lists withCommand(const std::function<void(abi::Command &, uint64_t offset)> &make, abi::Tensor::Kind kind,
                  int64_t before) {
  abi::Manifest manifest = toyManifest({.dp = 2});
  abi::CommandList &list = *manifest.mutable_lists(0);
  list.set_name("first");
  make(*list.add_commands(), tensorOf(manifest, kind).address() - static_cast<uint64_t>(before));
  return writersOf(manifest);
}

TEST(StateWriters, AreKnownByWhatTheyWrite) {
  auto copy = [](abi::Command &command, uint64_t offset) {
    command.mutable_copy()->set_output(offset);
    command.mutable_copy()->set_elements(2);
  };
  auto gather = [](abi::Command &command, uint64_t offset) {
    abi::Collective &call = *command.mutable_start();
    call.set_kind(abi::Collective::ALL_GATHER);
    call.set_outer(1);
    call.set_chunk(1); // of each of two
    call.set_output(offset);
  };
  auto receive = [](abi::Command &command, uint64_t offset) {
    command.mutable_recv()->set_buffer(offset);
    command.mutable_recv()->set_elements(2);
  };
  auto send = [](abi::Command &command, uint64_t offset) {
    command.mutable_send()->set_buffer(offset);
    command.mutable_send()->set_elements(2);
  };
  for (abi::Tensor::Kind kind : {abi::Tensor::PARAMETER, abi::Tensor::SLOT}) {
    for (const auto &make : {+copy, +gather, +receive})
      for (int64_t before : {0, 4}) // all, or the end of it
        EXPECT_EQ(withCommand(make, kind, before), (Lists{"first", "turn"}));
    EXPECT_EQ(withCommand(send, kind, 0), Lists{"turn"});
  }
  EXPECT_EQ(withCommand(copy, abi::Tensor::GRADIENT, 0), Lists{"turn"});
}

// At each call the state is as the step before left it, and after the last one it changes.
TEST(StepRunner, TellsBeforeTheStateChanges) {
  TemporaryDirectory directory;
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 500; ++i)
    tokens.push_back(static_cast<uint16_t>(i * i % 7 % 5));
  writeTokenFile(directory / "tokens", tokens);
  abi::Manifest manifest = toyManifest({.accumulation = 2});
  std::string code = readFile(DTC_TOY_KERNELS);
  KernelLibrary kernels(code);
  CpuDevice device(1, [&](const abi::Kernel &kernel) { return kernels.find(kernel.symbol()); });
  Arena arena(manifest.roles(0).arena_bytes(), manifest.roles(0).shared_begin());
  InProcessJob alone(1);
  std::unique_ptr<Communicator> communicator = alone.join(0, arena);
  Executor executor(manifest, *communicator, device, arena);
  RankState(manifest, 0, device, arena).initialize(1, 1);
  TokenData data({directory / "tokens"}, TokenFile::Format::LlmC);
  Sampler sampler(data, {manifest.training().sequence_length(), 5, 0, 1});
  std::vector<float> before;
  int64_t calls = 0;
  StepRunner steps(executor, sampler, manifest.training(), [&] {
    ++calls;
    EXPECT_EQ(executor.floats("table"), before);
  });
  LossScale scale;
  for (int64_t step : {0, 1, 2}) {
    before = executor.floats("table");
    steps.train(step, 8 * step, scale);
    EXPECT_EQ(calls, step + 1);
    EXPECT_NE(executor.floats("table"), before);
  }
}

} // namespace
} // namespace dtc::test
