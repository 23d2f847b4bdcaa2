// What every device promises: memory, launches and copies in order, copies in parallel with them, reads and writes of
// the host, events.
#include "runtime/abi/manifest.pb.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "test/runtime/device/far_device.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

namespace dtc::test {
namespace {

std::mutex partsMutex;
std::vector<std::pair<int64_t, int64_t>> parts;
std::set<std::thread::id> workers;

void record(void *const *, const int64_t *, int64_t begin, int64_t end) {
  std::lock_guard lock(partsMutex);
  parts.push_back({begin, end});
  workers.insert(std::this_thread::get_id());
}

void addOne(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto *values = static_cast<int64_t *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    values[i] = values[i] + scalars[0];
}

dtc_kernel_fn resolve(const abi::Kernel &kernel) {
  return kernel.symbol() == "record" ? record : kernel.symbol() == "add_one" ? addOne : nullptr;
}

/// On the stand-in for NVIDIA's driver, with kernels of test/gpu/stand_in/kernels.cpp.
std::unique_ptr<Device> makeCuda() {
  std::string code = readFile(DTC_BINARY_DIR "/test/gpu/stand_in/kernels.so");
  abi::Manifest manifest;
  abi::CodePart &part = *manifest.add_code();
  part.set_name("cubin.sm_90");
  part.set_bytes(code.size());
  return std::make_unique<CudaDevice>(manifest, code, cuda::LocalRank{}, nullptr);
}

struct DeviceCase {
  const char *name;
  int threads; ///< kernels that may share a launch; 0: grids are not cut
  std::function<std::unique_ptr<Device>()> make;
};

const DeviceCase Devices[] = {
    {"CpuOfOneThread", 1, [] { return std::make_unique<CpuDevice>(1, resolve); }},
    {"CpuOfTwoThreads", 2, [] { return std::make_unique<CpuDevice>(2, resolve); }},
    {"CpuOfFiveThreads", 5, [] { return std::make_unique<CpuDevice>(5, resolve); }},
    {"Far", 1, [] { return std::make_unique<FarDevice>(resolve); }},
    {"Cuda", 0, makeCuda},
};

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
protected:
  void finish() { device->wait(device->record()); }

  Device::Kernel load(const char *symbol) {
    abi::Kernel kernel;
    kernel.set_symbol(symbol);
    kernel.set_library(true);
    abi::KernelPass &pass = *kernel.add_passes(); // only GPUs use passes
    pass.set_function(symbol);
    pass.set_blocks(4);
    pass.set_threads(32);
    return device->load(kernel);
  }

  /// The contents at an address.
  template <typename T = int64_t> std::vector<T> read(const std::byte *address, size_t count) {
    std::vector<T> values(count);
    device->read(std::as_writable_bytes(std::span(values)), address);
    return values;
  }

  std::unique_ptr<Device> device = GetParam().make();
};

/// For devices that cut a launch's grid.
class GridConformance : public DeviceConformance {};

TEST_P(DeviceConformance, MemoryIsZeroAndOfItsSize) {
  std::unique_ptr<Memory> memory = device->allocate(100000, 4096);
  EXPECT_EQ(memory->bytes(), 100000U);
  EXPECT_EQ(memory->sharedBegin(), 4096U);
  EXPECT_EQ(read<char>(memory->base(), 100000), std::vector<char>(100000));
}

TEST_P(DeviceConformance, AKernelOfNowhereIsNone) {
  EXPECT_NE(load("add_one"), Device::Kernel(0));
  EXPECT_EQ(load("of_nowhere"), Device::Kernel(0));
}

TEST_P(GridConformance, PartsCoverTheGridOnceAndBeginAtMultiplesOfTheGrain) {
  Device::Kernel kernel = load("record");
  for (int64_t grain : {1, 4, 7}) {
    for (int64_t grid : {0, 1, 6, 20, 1000}) {
      parts.clear();
      device->launch(kernel, {}, {}, grid, grain);
      finish();
      std::sort(parts.begin(), parts.end());
      int64_t next = 0;
      for (auto [begin, end] : parts) {
        EXPECT_EQ(begin, next);
        EXPECT_EQ(begin % grain, 0);
        next = end;
      }
      EXPECT_EQ(next, grid);
      EXPECT_LE(parts.size(), size_t(GetParam().threads));
    }
  }
}

TEST_P(GridConformance, ALaunchIsSharedByAllThreads) {
  workers.clear();
  device->launch(load("record"), {}, {}, 100, 1);
  finish();
  EXPECT_EQ(workers.size(), size_t(GetParam().threads));
}

TEST_P(DeviceConformance, ACountInMemorySaysHowMuchOfAGridRuns) {
  bool reads = std::string(GetParam().name).starts_with("Cpu");
  ASSERT_EQ(device->readsGrids(), reads);
  std::unique_ptr<Memory> memory = device->allocate(4096, 4096);
  Device::Kernel kernel = load("add_one");
  void *values[] = {memory->base()}, *counts[] = {memory->base() + 1024};
  const int64_t one = 1, three = 3;
  auto launch = [&] { device->launchCounted(kernel, values, {&one, 1}, 8, 2, memory->base() + 1024); };
  if (!reads) {
    EXPECT_THROW(launch(), DeviceError);
    return;
  }
  for (int round = 0; round < 3; ++round) { // 0, 3 and 6, as written just before
    launch();
    device->launch(kernel, counts, {&three, 1}, 1, 1);
  }
  EXPECT_EQ(read(memory->base(), 9), (std::vector<int64_t>{2, 2, 2, 1, 1, 1, 0, 0, 0}));
  for (int64_t wrong : {9, -1}) {
    device->write(memory->base() + 1024, std::as_bytes(std::span(&wrong, 1)));
    try {
      launch();
      ADD_FAILURE() << wrong;
    } catch (const DeviceError &error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("the count of its grid says " + std::to_string(wrong) + ", and the grid is 8"));
    }
  }
  EXPECT_EQ(read(memory->base(), 9), (std::vector<int64_t>{2, 2, 2, 1, 1, 1, 0, 0, 0}));
}

// Launches follow each other closely, with pauses long enough for workers to fall asleep in between.
TEST_P(DeviceConformance, EachLaunchSeesTheResultsOfTheOneBefore) {
  Device::Kernel kernel = load("add_one");
  std::unique_ptr<Memory> memory = device->allocate(1001 * sizeof(int64_t), 0);
  void *buffers[] = {memory->base()};
  int64_t scalars[] = {1};
  for (int launch = 0; launch < 2000; ++launch) {
    device->launch(kernel, buffers, scalars, 1001, 10);
    if (launch % 500 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_THAT(read(memory->base(), 1001), testing::Each(2000));
}

// A copy runs in order with launches, and moves exactly its bytes.
TEST_P(DeviceConformance, CopiesStandInTheOrderOfLaunches) {
  Device::Kernel kernel = load("add_one");
  std::unique_ptr<Memory> memory = device->allocate(1 << 20, 0);
  std::byte *to = memory->base() + 1000 * sizeof(int64_t);
  void *buffers[] = {memory->base()};
  int64_t scalars[] = {7};
  for (int round = 1; round <= 100; ++round) {
    device->launch(kernel, buffers, scalars, 900, 1);
    device->copy(to, memory->base(), 800 * sizeof(int64_t) - 1);
    device->launch(kernel, buffers, scalars, 900, 1);
    std::vector<int64_t> copied = read(to, 801);
    ASSERT_EQ(copied[0], 14 * round - 7);
    ASSERT_EQ(copied[798], 14 * round - 7);
    ASSERT_EQ(copied[800], 0);
  }
}

TEST_P(DeviceConformance, MemoryOfTheHostIsZeroAndOfItsSize) {
  std::unique_ptr<Memory> memory = device->allocateHost(5000);
  ASSERT_EQ(memory->bytes(), 5000U);
  EXPECT_THAT(std::span(memory->base(), 5000), testing::Each(std::byte{0}));
  EXPECT_EQ(device->allocateHost(0)->bytes(), 0U);
}

// Exact to the byte, and in order with launches.
TEST_P(DeviceConformance, CopiesReachMemoryOfTheHost) {
  Device::Kernel kernel = load("add_one");
  std::unique_ptr<Memory> memory = device->allocate(4096, 0), host = device->allocateHost(1000);
  void *buffers[] = {memory->base()};
  int64_t scalars[] = {7};
  for (int64_t round = 1; round <= 10; ++round) {
    device->launch(kernel, buffers, scalars, 100, 1);
    device->copy(host->base() + 8, memory->base(), 800 - 1);
    device->launch(kernel, buffers, scalars, 100, 1);
    device->copy(memory->base() + 1600, host->base(), 24);
    ASSERT_THAT(read(memory->base() + 1600, 4), testing::ElementsAre(0, 14 * round - 7, 14 * round - 7, 0));
    finish();
    std::vector<int64_t> moved(102);
    std::memcpy(moved.data(), host->base(), 816);
    ASSERT_EQ(moved[99], 14 * round - 7);
    ASSERT_EQ(moved[101], 0);
  }
}

// A copy in parallel with launches sees the results of those before it, and launches after its wait see the copy,
// without a wait of the host. Its source may be overwritten at once.
TEST_P(DeviceConformance, CopiesBesideLaunchesComeBetweenTheirStartAndTheirWait) {
  Device::Kernel kernel = load("add_one");
  constexpr size_t count = 20000, bytes = count * sizeof(int64_t);
  std::unique_ptr<Memory> memory = device->allocate(3 * bytes, 0), host = device->allocateHost(bytes);
  std::byte *values = memory->base(), *others = values + bytes, *back = others + bytes;
  void *buffers[] = {values}, *besides[] = {others}, *returned[] = {back};
  int64_t scalars[] = {1};
  for (int64_t round = 1; round <= 50; ++round) {
    device->launch(kernel, buffers, scalars, count, 10);
    Device::CopyHandle away = device->startCopy(host->base(), values, bytes, 0);
    device->launch(kernel, besides, scalars, count, 10);
    device->awaitCopy(away);
    device->launch(kernel, buffers, scalars, count, 10);
    Device::CopyHandle home = device->startCopy(back, host->base(), bytes, 5);
    device->launch(kernel, besides, scalars, count, 10);
    device->awaitCopy(home);
    device->launch(kernel, returned, scalars, count, 10);
    if (round % 10 != 0)
      continue;
    ASSERT_THAT(read(back, count), testing::Each(2 * round)); // 2 round - 1 remained, and one was added
    ASSERT_THAT(read(others, count), testing::Each(2 * round));
  }
}

// Copies of one channel pass data to each other, whichever is waited for first.
TEST_P(DeviceConformance, CopiesOfOneChannelAreDoneInTheirOrder) {
  constexpr size_t count = 1000, bytes = count * sizeof(int64_t), steps = 20;
  std::unique_ptr<Memory> memory = device->allocate((steps + 1) * bytes, 0), host = device->allocateHost(bytes);
  auto place = [&](size_t step) { return memory->base() + step * bytes; };
  for (int64_t round = 1; round <= 10; ++round) {
    std::vector<int64_t> values(count, round);
    device->write(place(0), std::as_bytes(std::span(values)));
    std::vector<Device::CopyHandle> copies;
    for (size_t step = 0; step < steps; ++step) {
      copies.push_back(device->startCopy(host->base(), place(step), bytes, 3));
      copies.push_back(device->startCopy(place(step + 1), host->base(), bytes, 3));
    }
    for (size_t i = copies.size(); i-- > 0;)
      device->awaitCopy(copies[i]);
    ASSERT_EQ(read(place(steps), count), values);
  }
}

TEST_P(DeviceConformance, MomentsOfCopiesAreAmongTheOthers) {
  constexpr size_t bytes = 1 << 20;
  std::unique_ptr<Memory> memory = device->allocate(bytes, 0), host = device->allocateHost(bytes);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(device->mark(), 0U);
    EXPECT_EQ(device->markCopies(2), 1U);
    Device::CopyHandle copy = device->startCopy(host->base(), memory->base(), bytes, 2);
    EXPECT_EQ(device->markCopies(2), 2U);
    EXPECT_EQ(device->mark(), 3U);
    device->awaitCopy(copy);
    std::vector<int64_t> moments = device->takeMoments();
    ASSERT_EQ(moments.size(), 4U);
    EXPECT_LE(moments[0], moments[1]);
    EXPECT_LE(moments[1], moments[2]);
    EXPECT_THAT(device->takeMoments(), testing::IsEmpty());
  }
}

// Nobody uses memory that has been freed, and new copies may be started.
TEST_P(DeviceConformance, CopiesThatNobodyWaitsForAreGivenUp) {
  constexpr size_t bytes = 8 << 20;
  for (int round = 0; round < 3; ++round) {
    std::unique_ptr<Memory> memory = device->allocate(bytes, 0), host = device->allocateHost(bytes);
    for (uint32_t channel : {0, 1, 0})
      device->startCopy(host->base(), memory->base(), bytes, channel);
    device->markCopies(1);
    device->abandonCopies();
  }
  std::unique_ptr<Memory> memory = device->allocate(64, 0), host = device->allocateHost(64);
  device->takeMoments();
  std::vector<int64_t> values = {3, 4};
  device->write(memory->base(), std::as_bytes(std::span(values)));
  device->awaitCopy(device->startCopy(host->base(), memory->base(), 16, 1));
  device->awaitCopy(device->startCopy(memory->base() + 16, host->base(), 16, 0));
  EXPECT_EQ(read(memory->base() + 16, 2), values);
}

// The host reads the results of all launches so far, and all later launches see what it writes: without a wait of its
// own, and exact to the byte.
TEST_P(DeviceConformance, ReadsAndWritesStandInTheOrderOfLaunches) {
  Device::Kernel kernel = load("add_one");
  std::unique_ptr<Memory> memory = device->allocate(4096, 0);
  std::byte *values = memory->base() + 64;
  void *buffers[] = {values};
  int64_t scalars[] = {5};
  for (int64_t round = 1; round <= 100; ++round) {
    std::vector<int64_t> given = {round, 2 * round, 3 * round};
    device->launch(kernel, buffers, scalars, 4, 1);
    device->write(values, std::as_bytes(std::span(given)));
    given.assign(3, -1); // the host may overwrite it again
    device->launch(kernel, buffers, scalars, 4, 1);
    ASSERT_THAT(read(values, 5), testing::ElementsAre(round + 5, 2 * round + 5, 3 * round + 5, 10 * round, 0));
    ASSERT_THAT(read(values - 8, 2), testing::ElementsAre(0, round + 5));
  }
}

// Recorded launches do not run at once; then they run each time they are given, in order with everything else.
TEST_P(DeviceConformance, WhatIsNotedIsGivenAgain) {
  Device::Kernel kernel = load("add_one");
  std::unique_ptr<Memory> memory = device->allocate(4096, 0);
  std::byte *copied = memory->base() + 1024;
  void *buffers[] = {memory->base()};
  int64_t scalars[] = {3};
  if (!device->beginSequence()) {
    EXPECT_THAT(GetParam().name, testing::StartsWith("Cpu")); // launches are cheap there
    return;
  }
  device->launch(kernel, buffers, scalars, 4, 1);
  device->copy(copied, memory->base(), 8);
  device->launch(kernel, buffers, scalars, 4, 1);
  Device::Sequence sequence = device->endSequence();
  ASSERT_NE(sequence, 0U);
  EXPECT_THAT(read(memory->base(), 4), testing::Each(0));
  for (int64_t round = 1; round <= 20; ++round) {
    device->give(sequence);
    device->launch(kernel, buffers, scalars, 2, 1);
    if (round % 7 != 0)
      continue;
    EXPECT_THAT(read(memory->base(), 4), testing::ElementsAre(9 * round, 9 * round, 6 * round, 6 * round));
    EXPECT_EQ(read(copied, 1)[0], 9 * round - 6);
  }
}

TEST_P(DeviceConformance, SeveralThreadsReadAndWriteAtOnce) {
  std::unique_ptr<Memory> memory = device->allocate(8 * 4096, 0);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread)
      threads.emplace_back([&, place = memory->base() + 4096 * thread, thread] {
        for (int64_t round = 0; round < 100; ++round) {
          std::vector<int64_t> values(512, 1000 * thread + round);
          device->write(place, std::as_bytes(std::span(values)));
          EXPECT_EQ(read(place, 512), values);
        }
      });
  }
  for (int64_t thread = 0; thread < 8; ++thread)
    EXPECT_THAT(read(memory->base() + 4096 * thread, 512), testing::Each(1000 * thread + 99));
}

INSTANTIATE_TEST_SUITE_P(All, DeviceConformance, testing::ValuesIn(Devices),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(All, GridConformance, testing::ValuesIn(Devices, Devices + 4),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
