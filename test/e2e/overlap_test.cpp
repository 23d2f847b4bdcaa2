// Reductions run during the backward pass: with links so slow that the reductions take as long as the backward pass, a
// step waits only for a small part of them.
#include "runtime/abi/element_type.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/tensors.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/program/start/kernel_library.h"
#include "test/e2e/compiled_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace dtc::test {
namespace {

using Clock = std::chrono::steady_clock;

int64_t now() { return Clock::now().time_since_epoch().count(); }

/// A link to peers that do not exist. A command moves its operand's bytes at a given speed, one after the other on each
/// channel; waiting sleeps, so that the computation keeps its core. Received data are not written.
class SlowLink : public Communicator {
public:
  double nanosecondsPerByte = 0;
  int64_t moving = 0, waited = 0; ///< nanoseconds: of all commands, and of the waits for them

  int rank() const override { return 0; }
  int size() const override { return 2; }
  CommunicatorCapabilities capabilities() const override { return {true, true, true, false}; }

  CommandHandle start(const Group &group, const abi::Command &command) override {
    const abi::Collective &collective = command.start();
    uint64_t elements = collective.outer() * std::max<int64_t>(collective.middle(), 1) * collective.chunk();
    int64_t begin = std::max(now(), freeAt[group.channel]);
    int64_t takes = int64_t(nanosecondsPerByte * double(abi::bytesOf(collective.type(), elements)));
    freeAt[group.channel] = begin + takes;
    moving += takes;
    return {group.channel, 0, std::make_shared<CommandTimes>(CommandTimes{begin, freeAt[group.channel]})};
  }

  CommandTimes wait(const CommandHandle &handle) override {
    int64_t begin = now();
    std::this_thread::sleep_until(Clock::time_point(Clock::duration(handle.times->end)));
    waited += now() - begin;
    return *handle.times;
  }

  std::vector<int64_t> exchange(int64_t value) override { return {value, value}; }
  void poison(std::string_view) noexcept override {}

private:
  std::map<uint32_t, int64_t> freeAt; ///< when a channel's last command ends
};

class Overlap : public testing::Test {
protected:
  /// One rank of two.
  explicit Overlap(const char *strategy = "ddp")
      : compiled({.model = "gpt-small",
                  .mesh = "dp=2",
                  .strategy = strategy,
                  .sequence = 64,
                  .generateCode = true,
                  .expect = false}),
        library(compiled.sharedObject), arena(role().arena_bytes(), role().shared_begin()),
        executor(compiled.manifest, link, device, arena) {}

  const abi::Role &role() const { return compiled.manifest.roles(0); }
  std::vector<abi::CommandList> lists() const { return abi::Resolver(compiled.manifest, role()).all(); }

  int64_t timeOf(const char *list) {
    int64_t begin = now();
    executor.run(list);
    return now() - begin;
  }

  CompiledModel compiled;
  KernelLibrary library;
  SlowLink link;
  CpuDevice device{1, [this](const abi::Kernel &kernel) {
                     return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
                   }};
  Arena arena;
  Executor executor;
};

TEST_F(Overlap, AFifthOfTheReductionsIsExposedAtMost) {
  uint64_t bytes = 0;
  for (const abi::Tensor &tensor : role().tensors())
    if (tensor.kind() == abi::Tensor::REDUCED_GRADIENT)
      bytes += abi::bytesOf(tensor);
  // The machine has other work as well: an attempt counts when it computed as fast as the measurement before it, and
  // then late wake-ups only add to the exposed time.
  double exposed = 2;
  for (int attempt = 0; attempt < 100 && exposed > 0.2; ++attempt) {
    link.nanosecondsPerByte = 0;
    timeOf("micro_last");
    int64_t forward = timeOf("eval"), both = timeOf("micro_last");
    link.nanosecondsPerByte = double(both - forward) / double(bytes);
    link.moving = link.waited = 0;
    int64_t computed = timeOf("micro_last") - link.waited;
    EXPECT_NEAR(double(link.moving), double(both - forward), 0.02 * double(both - forward));
    if (std::abs(double(computed - both)) <= 0.05 * double(both))
      exposed = std::min(exposed, double(link.waited) / double(link.moving));
  }
  if (exposed == 2)
    GTEST_SKIP() << "the machine is too busy to compute equally fast twice";
  EXPECT_LE(exposed, 0.2);
}

/// Which commands a list starts, and how many products run before each one's wait.
std::map<std::string, int> productsBeside(const abi::Manifest &manifest, const abi::CommandList &list) {
  std::map<uint32_t, std::string> values;
  std::map<std::string, int> beside;
  for (const abi::Command &command : list.commands()) {
    if (command.has_start())
      beside[values[command.start().token()] = command.start().value()] = 0;
    else if (command.has_wait())
      values.erase(command.wait().token());
    else if (command.has_launch() && manifest.kernels(int(command.launch().kernel())).symbol().starts_with("dtc_gemm"))
      for (const auto &[token, value] : values)
        ++beside[value];
  }
  return beside;
}

TEST_F(Overlap, EveryLayersGradientsAreReducedBesideTheNextOnesProducts) {
  for (const abi::CommandList &list : lists())
    if (list.name() == "micro_last")
      for (const auto &[value, products] : productsBeside(compiled.manifest, list))
        if (value.starts_with("h.") && !value.starts_with("h.0")) {
          EXPECT_GE(products, 6) << value;
        }
}

class GatherOverlap : public Overlap {
protected:
  GatherOverlap() : Overlap("zero3") {}
};

// With two readers ahead, each matrix is in transit while the one before is multiplied: between the two there is one
// reader of a bias or of a norm's parameters.
TEST_F(GatherOverlap, MatricesAreGatheredBesideTheProductBeforeTheirs) {
  int matrices = 0;
  for (const abi::CommandList &list : lists())
    if (list.name() == "eval")
      for (const auto &[value, products] : productsBeside(compiled.manifest, list))
        if (value.find(".c_") != std::string::npos && value.ends_with(".weight")) {
          EXPECT_EQ(products, value == "h.0.attn.c_attn.weight" ? 0 : 1) << value; // nothing is before the first
          ++matrices;
        }
  EXPECT_EQ(matrices, 4 * 4);
}

} // namespace
} // namespace dtc::test
