// Memory of the host as a program uses it: stashes of forward passes are copied there and come back before their
// backward passes, with two slots in the device's memory at a time, on every device.
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/validate.h"
#include "runtime/kernels/cuda/library.h"
#include "test/runtime/device/far_device.h"
#include "test/runtime/program/manifests.h"
#include "test/runtime/temporary_directory.h"

#include <cstring>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

constexpr int64_t Values = 3000, Bytes = 8 * Values; // of 64 bits, which the program takes for two i32
constexpr uint32_t MicroBatches = 6;

//===----------------------------------------------------------------------===//
// Kernels; on GPUs they are those of test/gpu/stand_in/kernels.cpp
//===----------------------------------------------------------------------===//

void addOne(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int64_t *>(buffers[0])[i] += scalars[0];
}

void accumulate(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int64_t *>(buffers[1])[i] += static_cast<const int64_t *>(buffers[0])[i];
}

dtc_kernel_fn resolve(const abi::Kernel &kernel) { return kernel.symbol() == "add_one" ? addOne : accumulate; }

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

/// A forward pass adds to "x" and stashes it; a backward pass doubles "sum" and adds the stash of its forward pass. So
/// the sum shows the order of the micro-batches.
class Pipeline {
public:
  /// The stash has this many slots in the device's memory; with `offloads` the host has one for each micro-batch.
  Pipeline(uint32_t places, bool offloads, const std::vector<std::string> &plan) : offloads(offloads) {
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("dp");
    axis->set_size(1);
    manifest.add_stages();
    addKernel("add_one", 0);
    addKernel("accumulate", 1);
    addMemory(places);
    addLists();
    for (const std::string &each : plan) {
      abi::TimetableEntry &entry = addEntry(*manifest.mutable_roles(0), abi::stepTimetable, each.substr(0, 1));
      auto microBatch = static_cast<uint32_t>(std::stoul(each.substr(1)));
      entry.set_micro_batch(microBatch);
      entry.add_places(0);
      entry.add_places(microBatch % places);
      if (offloads)
        entry.add_places(microBatch);
    }
  }

  abi::Manifest manifest;
  std::string code = readFile(DTC_BINARY_DIR "/test/gpu/stand_in/kernels.so");

private:
  void addKernel(const char *symbol, uint32_t inputs) {
    abi::Kernel &kernel = *manifest.add_kernels();
    kernel.set_symbol(symbol);
    kernel.set_library(true);
    kernel.set_inputs(inputs);
    kernel.set_outputs(1);
    abi::KernelPass &pass = *kernel.add_passes();
    pass.set_function(symbol);
    pass.set_blocks(4);
    pass.set_threads(32);
    if (manifest.code().empty()) {
      abi::CodePart &part = *manifest.add_code();
      part.set_name("cubin.sm_90");
      part.set_bytes(code.size());
    }
  }

  void addMemory(uint32_t places) {
    abi::Role &role = *manifest.add_roles();
    role.set_arena_bytes(Bytes * (2 + places));
    role.set_shared_begin(role.arena_bytes());
    addSpace(role, abi::Space::PRIVATE, 0, 2 * Bytes);
    stash = abi::addressOf(addSpace(role, abi::Space::PRIVATE, 2 * Bytes, Bytes, places), 0);
    if (offloads) {
      role.set_host_bytes(Bytes * MicroBatches);
      host = abi::addressOf(addSpace(role, abi::Space::HOST, 0, Bytes, MicroBatches), 0);
    }
    for (auto [name, address] : {std::pair("x", x), std::pair("sum", sum)}) {
      abi::Tensor &tensor = *role.add_tensors();
      tensor.set_name(name);
      tensor.set_type(abi::I32);
      tensor.add_local_shape(2 * Values);
      tensor.set_address(address);
    }
  }

  void addLists() {
    begin("F", abi::CommandList::FORWARD_PASS);
    launch(0, {x}, 3);
    copy(x, stash);
    if (offloads)
      start(copy(stash, host), 0, 0);
    begin("S", abi::CommandList::TRANSFER);
    await(0);
    begin("L", abi::CommandList::TRANSFER);
    start(copy(host, stash), 1, 1);
    begin("B", abi::CommandList::BACKWARD_PASS);
    launch(1, {sum, sum});
    if (offloads)
      await(1);
    launch(1, {stash, sum});
  }

  void begin(const char *name, abi::CommandList::Duty duty) { list = &addList(manifest, name, duty); }
  void launch(uint32_t kernel, const std::vector<uint64_t> &buffers, std::optional<int64_t> scalar = {}) {
    abi::Launch &launch = *list->add_commands()->mutable_launch();
    launch.set_kernel(kernel);
    for (uint64_t buffer : buffers) {
      launch.add_buffers(buffer);
      launch.add_buffer_bytes(Bytes);
      launch.add_buffer_types(abi::I32);
    }
    if (scalar)
      launch.add_scalars()->set_value(*scalar);
    launch.set_grid(Values);
    launch.set_grain(1);
  }
  abi::Copy &copy(uint64_t from, uint64_t to) {
    abi::Copy &copy = *list->add_commands()->mutable_copy();
    copy.set_type(abi::I32);
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(2 * Values);
    return copy;
  }
  static void start(abi::Copy &copy, uint32_t token, uint32_t channel) {
    copy.set_token(token);
    copy.set_token_space(1);
    copy.set_channel(channel);
  }
  void await(uint32_t token) {
    abi::Wait &wait = *list->add_commands()->mutable_wait();
    wait.set_token(token);
    wait.set_token_space(1);
  }

  bool offloads;
  uint64_t x = 0, sum = Bytes, stash = 0, host = 0;
  abi::CommandList *list = nullptr;
};

/// With everything in the device's memory.
const std::vector<std::string> Kept = {"F0", "F1", "F2", "F3", "F4", "F5", "B0", "B1", "B2", "B3", "B4", "B5"};
/// A slot is reused when its stash has been copied out, and the last stashes are copied out while the first ones come
/// back.
const std::vector<std::string> Offloaded = {"F0", "F1", "S0", "F2", "S1", "F3", "S2", "F4", "S3", "F5", "S4", "L0",
                                            "S5", "L1", "B0", "L2", "B1", "L3", "B2", "L4", "B3", "L5", "B4", "B5"};

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

struct DeviceCase {
  const char *name;
  std::function<std::unique_ptr<Device>(const Pipeline &)> make;
};

const DeviceCase Devices[] = {
    {"Cpu", [](const Pipeline &) { return std::make_unique<CpuDevice>(1, resolve); }},
    {"CpuOfThreeThreads", [](const Pipeline &) { return std::make_unique<CpuDevice>(3, resolve); }},
    {"Far", [](const Pipeline &) { return std::make_unique<FarDevice>(resolve); }},
    {"Cuda",
     [](const Pipeline &program) {
       return std::make_unique<CudaDevice>(program.manifest, program.code, cuda::LocalRank{},
                                           cuda::makeLibraryKernels());
     }},
    {"CudaWithoutGraphs",
     [](const Pipeline &program) {
       return std::make_unique<CudaDevice>(program.manifest, program.code, cuda::LocalRank{},
                                           cuda::makeLibraryKernels(), /*graphs=*/false);
     }},
};

class OffloadConformance : public testing::TestWithParam<DeviceCase> {
protected:
  /// The sum after each of several steps; the later ones are replayed as sequences where the device supports them.
  static std::vector<std::vector<int64_t>> run(const Pipeline &program) {
    const abi::Role &role = program.manifest.roles(0);
    std::unique_ptr<Device> device = GetParam().make(program);
    std::unique_ptr<Memory> memory = device->allocate(role.arena_bytes(), role.shared_begin());
    std::unique_ptr<Memory> hostMemory = device->allocateHost(role.host_bytes());
    InProcessJob alone(1);
    Arena stage(role.arena_bytes(), role.shared_begin());
    std::unique_ptr<Communicator> communicator = alone.join(0, stage);
    Executor executor(program.manifest, *communicator, *device, *memory, hostMemory.get());
    std::vector<std::vector<int64_t>> sums;
    for (int step = 0; step < 5; ++step) {
      for (const abi::TimetableEntry &entry : role.timetables(0).period())
        executor.run(entry);
      std::vector<int32_t> words = executor.integers("sum");
      std::memcpy(sums.emplace_back(Values).data(), words.data(), Bytes);
    }
    return sums;
  }
};

TEST_P(OffloadConformance, WhatLeavesForTheHostAndComesBackIsAsIfItHadStayed) {
  Pipeline kept(MicroBatches, /*offloads=*/false, Kept), offloaded(2, /*offloads=*/true, Offloaded);
  validatePlacesInTime(offloaded.manifest, offloaded.manifest.roles(0));
  std::vector<std::vector<int64_t>> sums = run(offloaded);
  EXPECT_EQ(sums, run(kept));
  int64_t x = 0, sum = 0;
  for (const std::vector<int64_t> &ofStep : sums) {
    for (uint32_t i = 0; i < MicroBatches; ++i)
      sum = 2 * sum + (x += 3);
    ASSERT_THAT(ofStep, testing::Each(sum));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OffloadConformance, testing::ValuesIn(Devices),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
