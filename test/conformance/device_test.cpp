// What every device promises: memory, launches and copies in order, events.
#include "runtime/device/cpu_device.h"

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

struct DeviceCase {
  const char *name;
  int threads; ///< that may share a launch
  std::function<std::unique_ptr<Device>()> make;
};

const DeviceCase Devices[] = {
    {"CpuOfOneThread", 1, [] { return std::make_unique<CpuDevice>(1); }},
    {"CpuOfTwoThreads", 2, [] { return std::make_unique<CpuDevice>(2); }},
    {"CpuOfFiveThreads", 5, [] { return std::make_unique<CpuDevice>(5); }},
};

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
protected:
  void finish() { device->wait(device->record()); }

  std::unique_ptr<Device> device = GetParam().make();
};

TEST_P(DeviceConformance, MemoryIsZeroAndOfItsSize) {
  std::unique_ptr<Arena> arena = device->allocate(100000, 4096);
  EXPECT_EQ(arena->bytes(), 100000U);
  EXPECT_EQ(arena->sharedBegin(), 4096U);
  EXPECT_TRUE(
      std::all_of(arena->base(), arena->base() + arena->bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(DeviceConformance, PartsCoverTheGridOnceAndBeginAtMultiplesOfTheGrain) {
  for (int64_t grain : {1, 4, 7}) {
    for (int64_t grid : {0, 1, 6, 20, 1000}) {
      parts.clear();
      device->launch(record, nullptr, nullptr, grid, grain);
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

TEST_P(DeviceConformance, ALaunchIsSharedByAllThreads) {
  workers.clear();
  device->launch(record, nullptr, nullptr, 100, 1);
  finish();
  EXPECT_EQ(workers.size(), size_t(GetParam().threads));
}

// Launches follow each other closely, with pauses long enough for workers to fall asleep in between.
TEST_P(DeviceConformance, EachLaunchSeesTheResultsOfTheOneBefore) {
  std::unique_ptr<Arena> arena = device->allocate(1001 * sizeof(int64_t), 0);
  void *buffers[] = {arena->base()};
  int64_t scalars[] = {1};
  for (int launch = 0; launch < 2000; ++launch) {
    device->launch(addOne, buffers, scalars, 1001, 10);
    if (launch % 500 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  finish();
  auto *values = reinterpret_cast<int64_t *>(arena->base());
  EXPECT_THAT(std::vector<int64_t>(values, values + 1001), testing::Each(2000));
}

// A copy stands in the order of launches, and takes exactly its bytes.
TEST_P(DeviceConformance, CopiesStandInTheOrderOfLaunches) {
  std::unique_ptr<Arena> arena = device->allocate(1 << 20, 0);
  auto *from = reinterpret_cast<int64_t *>(arena->base()), *to = from + 1000;
  void *buffers[] = {from};
  int64_t scalars[] = {7};
  for (int round = 1; round <= 100; ++round) {
    device->launch(addOne, buffers, scalars, 900, 1);
    device->copy(reinterpret_cast<std::byte *>(to), arena->base(), 800 * sizeof(int64_t) - 1);
    device->launch(addOne, buffers, scalars, 900, 1);
    finish();
    ASSERT_EQ(to[0], 14 * round - 7);
    ASSERT_EQ(to[798], 14 * round - 7);
    ASSERT_EQ(to[800], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceConformance, testing::ValuesIn(Devices),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc::test
