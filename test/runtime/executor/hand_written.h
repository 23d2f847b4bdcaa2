// Handwritten command lists, run by one to four ranks on a CPU and on a device whose memory the host cannot access.
#pragma once

#include "runtime/executor/executor.h"

#include "runtime/abi/element_type.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/support/error.h"
#include "test/runtime/device/far_device.h"
#include "test/runtime/program/manifests.h"

#include <bit>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace dtc::test {

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// out[i] = a[i] * factor + i. buffers: a, out. scalars: real factor.
inline void scaleAdd(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *a = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  double factor = std::bit_cast<double>(scalars[0]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = static_cast<float>(a[i] * factor + i);
}

/// out[i] = value. buffers: out. scalars: value.
inline void setInteger(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int32_t *>(buffers[0])[i] = static_cast<int32_t>(scalars[0]);
}

inline dtc_kernel_fn resolve(const abi::Kernel &kernel) {
  return kernel.symbol() == "scale_add" ? scaleAdd : kernel.symbol() == "set_integer" ? setInteger : nullptr;
}

//===----------------------------------------------------------------------===//
// A program of two spaces: "x" [16] f32 in the private one, "y" [16] f32 and "n" [16] i32 in the one that peers see.
//===----------------------------------------------------------------------===//

constexpr uint64_t X = 0, Y = abi::addressOf(1, 0), N = abi::addressOf(1, 4096);

class Program {
public:
  explicit Program(int ranks) {
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("dp");
    axis->set_size(ranks);
    for (uint32_t channel : {0, 1}) {
      abi::Group *group = manifest.add_groups();
      group->set_channel(channel);
      abi::AxisRef *ref = group->add_axes();
      ref->set_axis("dp");
      ref->set_pre(1);
      ref->set_size(ranks);
    }
    for (const char *location : {"h.0", "h.1"})
      manifest.add_locations(location);
    addKernel("scale_add", 1, 1);
    addKernel("set_integer", 0, 1);
    abi::Role *role = manifest.add_roles();
    role->set_arena_bytes(16384);
    role->set_shared_begin(4096);
    addSpace(*role, abi::Space::PRIVATE, 0, 4096);
    addSpace(*role, abi::Space::REGISTERED, 4096, 12288);
    manifest.add_stages();
    addTensor("x", abi::F32, X);
    addTensor("y", abi::F32, Y);
    addTensor("n", abi::I32, N);
    beginList("main");
  }

  void launchScaleAdd(uint64_t in, uint64_t out, double factor, uint32_t location) {
    abi::Command *command = add();
    command->set_location(location);
    abi::Launch *launch = command->mutable_launch();
    for (uint64_t buffer : {in, out}) {
      launch->add_buffers(buffer);
      launch->add_buffer_bytes(64);
      launch->add_buffer_types(abi::F32);
    }
    launch->add_scalars()->set_real(factor);
    launch->set_grid(16);
    launch->set_grain(4);
  }

  abi::Launch *launchSetInteger(uint64_t out) {
    abi::Launch *launch = add()->mutable_launch();
    launch->set_kernel(1);
    launch->add_buffers(out);
    launch->add_buffer_bytes(64);
    launch->add_buffer_types(abi::I32);
    launch->set_grid(16);
    launch->set_grain(1);
    return launch;
  }

  /// An all-reduce of the group on this channel.
  abi::Collective *start(uint64_t buffer, uint32_t token, uint32_t channel = 0, abi::DataType type = abi::F32) {
    abi::Collective *collective = add()->mutable_start();
    collective->set_group(channel);
    collective->set_type(type);
    collective->set_input(buffer);
    collective->set_output(buffer);
    collective->set_outer(1);
    collective->set_chunk(16);
    collective->set_token(token);
    return collective;
  }

  void wait(uint32_t token) { add()->mutable_wait()->set_token(token); }

  /// Further commands go into another list, which the step runs next.
  void beginList(const char *name) {
    addList(manifest, name);
    addEntry(*manifest.mutable_roles(0), abi::stepTimetable, name);
  }

  abi::Command *add() { return manifest.mutable_lists()->rbegin()->add_commands(); }

  abi::Manifest manifest;

private:
  void addKernel(const char *symbol, int inputs, int outputs) {
    abi::Kernel *kernel = manifest.add_kernels();
    kernel->set_symbol(symbol);
    kernel->set_inputs(inputs);
    kernel->set_outputs(outputs);
  }
  void addTensor(const char *name, abi::DataType type, uint64_t address) {
    abi::Tensor *tensor = manifest.mutable_roles(0)->add_tensors();
    tensor->set_name(name);
    tensor->set_type(type);
    tensor->add_local_shape(16);
    tensor->set_address(address);
  }
};

template <typename T> void fill(Executor &executor, const char *name, T value) {
  executor.write(executor.tensor(name), std::vector<T>(16, value));
}

/// Runs `body` on every rank, with a CPU and with a device whose memory the host cannot access; rethrows nothing:
/// asserts that nothing failed.
inline void onEveryRank(const Program &program, const std::function<void(Executor &)> &body, int threads, bool far) {
  int ranks = static_cast<int>(program.manifest.mesh().axes(0).size());
  InProcessJob job(ranks);
  std::vector<std::string> failures(ranks);
  std::vector<std::thread> workers;
  for (int rank = 0; rank < ranks; ++rank)
    workers.emplace_back([&, rank] {
      try {
        std::unique_ptr<Device> device;
        if (far)
          device = std::make_unique<FarDevice>(resolve);
        else
          device = std::make_unique<CpuDevice>(threads, resolve);
        std::unique_ptr<Memory> memory = device->allocate(program.manifest.roles(0).arena_bytes(), 4096);
        std::unique_ptr<Memory> hostMemory = device->allocateHost(program.manifest.roles(0).host_bytes());
        auto communicator = job.join(rank, far ? static_cast<FarMemory &>(*memory).behind() : *memory->host());
        Executor executor(program.manifest, *communicator, *device, *memory, hostMemory.get());
        body(executor);
      } catch (const std::exception &error) {
        failures[rank] = error.what();
      }
    });
  for (std::thread &worker : workers)
    worker.join();
  EXPECT_EQ(failures, std::vector<std::string>(ranks));
}
inline void onEveryRank(const Program &program, const std::function<void(Executor &)> &body, int threads = 1) {
  for (bool far : {false, true}) {
    SCOPED_TRACE(far ? "far" : "CPU");
    onEveryRank(program, body, threads, far);
  }
}

inline std::string refusalOf(const Program &program, int started = 1) {
  try {
    InProcessJob job(started);
    Arena arena(16384, 4096);
    auto communicator = job.join(0, arena);
    CpuDevice device(1, resolve);
    Executor executor(program.manifest, *communicator, device, arena);
    return "";
  } catch (const Error &error) {
    return "exit code " + std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
  }
}

/// Rank 0 computes and sends, rank 1 receives into private memory and copies; a role each.
inline Program lineOfTwo() {
  Program program(2);
  program.launchScaleAdd(X, Y, 2, 0);
  abi::Role copied = program.manifest.roles(0);
  *program.manifest.add_roles() = copied;
  auto fill = [](abi::Transfer &transfer, uint64_t buffer, int64_t shift) {
    transfer.set_buffer(buffer);
    transfer.set_elements(16);
    transfer.set_shift(shift);
    transfer.set_group(1);
    transfer.set_token(4);
    transfer.set_value("y");
  };
  entriesOf(program.manifest, abi::stepTimetable, 1).Mutable(0)->set_list("receive");
  abi::CommandList &receiver = addList(program.manifest, "receive"), &sender = listIn(program.manifest, "main");
  fill(*sender.add_commands()->mutable_send(), Y, 1);
  fill(*receiver.add_commands()->mutable_recv(), X, -1);
  for (abi::CommandList *list : {&sender, &receiver})
    list->add_commands()->mutable_wait()->set_token(4);
  abi::Copy &copy = *receiver.add_commands()->mutable_copy();
  copy.set_input(X);
  copy.set_output(Y + 128);
  copy.set_elements(15);
  for (uint32_t rank : {0, 1}) {
    abi::RankRange &range = *program.manifest.mutable_roles(static_cast<int>(rank))->add_ranks();
    range.set_first(rank);
    range.set_count(1);
  }
  return program;
}

/// A transport that records its calls, and supports only what a test says.
class Recording final : public Communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  CommunicatorCapabilities capabilities() const override { return can; }
  CommandHandle start(const Group &group, const abi::Command &command) override {
    calls.push_back("start " + std::to_string(command.start().token()));
    return {group.channel, command.start().token(), nullptr};
  }
  void handOver() override { calls.push_back("hand over"); }
  CommandTimes wait(const CommandHandle &handle) override {
    calls.push_back("wait " + std::to_string(handle.ticket) + " of channel " + std::to_string(handle.channel));
    return times;
  }
  CommandTimes run(const Group &, const abi::Command &command) override {
    calls.push_back("run " + std::to_string(command.start().token()));
    return {};
  }
  std::vector<int64_t> exchange(int64_t value) override { return {value}; }
  void poison(std::string_view) noexcept override {}

  CommunicatorCapabilities can{true, true, true, true};
  CommandTimes times; ///< of what is waited for
  std::vector<std::string> calls;
};

} // namespace dtc::test
