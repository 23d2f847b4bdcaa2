#include "runtime/abi/error.h"
#include "runtime/device/arena.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/stream.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace dtc {
namespace {

//===----------------------------------------------------------------------===//
// Arena
//===----------------------------------------------------------------------===//

TEST(ArenaTest, IsOneRangeOfZeroesAcrossThePrivateAndTheSharedPart) {
  int file = memfd_create("test", 0);
  ASSERT_EQ(ftruncate(file, 3 * Arena::Alignment), 0);
  constexpr uint64_t Bytes = 2 * Arena::Alignment + 100, Shared = Arena::Alignment + 5000;
  Arena arena(Bytes, Shared);
  EXPECT_EQ(arena.mappedBegin(), Arena::Alignment);
  EXPECT_EQ(arena.mappedBytes(), 2 * Arena::Alignment);
  arena.mapShared(file, Arena::Alignment);
  for (uint64_t i = 0; i < Bytes; i += 4)
    ASSERT_EQ(*reinterpret_cast<uint32_t *>(arena.base() + i / 4 * 4), 0u);

  // A peer sees the shared part at the same offsets, in both directions.
  std::byte *peer = mapPeer(file, Arena::Alignment, arena.mappedBegin(), arena.mappedBytes());
  arena.base()[Shared] = std::byte{42};
  EXPECT_EQ(peer[Shared], std::byte{42});
  peer[Bytes - 1] = std::byte{43};
  EXPECT_EQ(arena.base()[Bytes - 1], std::byte{43});
  unmapPeer(peer, arena.mappedBegin(), arena.mappedBytes());
  close(file);
}

TEST(ArenaTest, WithNothingSharedMapsNothing) {
  Arena arena(1000, 1000);
  EXPECT_EQ(arena.mappedBytes(), 0u);
  arena.base()[999] = std::byte{1};
}

TEST(ArenaTest, RefusesWhatTheMachineOrTheNumbersDoNotAllow) {
  EXPECT_THROW(Arena(100, 101), Error);
  EXPECT_THROW(Arena(uint64_t(1) << 60, 0), Error);
  EXPECT_THROW(Arena(UINT64_MAX, 0), Error);
}

//===----------------------------------------------------------------------===//
// CpuDevice
//===----------------------------------------------------------------------===//

std::mutex partsMutex;
std::vector<std::pair<int64_t, int64_t>> parts;
std::set<std::thread::id> workers;

void record(void *const *, const int64_t *, int64_t begin, int64_t end) {
  std::lock_guard lock(partsMutex);
  parts.push_back({begin, end});
  workers.insert(std::this_thread::get_id());
}

TEST(CpuDeviceTest, PartsCoverTheGridOnceAndBeginAtMultiplesOfTheGrain) {
  for (int threads : {1, 2, 3, 5}) {
    CpuDevice device(threads);
    for (int64_t grain : {1, 4, 7}) {
      for (int64_t grid : {0, 1, 6, 20, 1000}) {
        parts.clear();
        device.launch(record, nullptr, nullptr, grid, grain);
        std::sort(parts.begin(), parts.end());
        int64_t next = 0;
        for (auto [begin, end] : parts) {
          EXPECT_EQ(begin, next);
          EXPECT_EQ(begin % grain, 0);
          next = end;
        }
        EXPECT_EQ(next, grid);
        EXPECT_LE(parts.size(), size_t(threads));
      }
    }
  }
}

TEST(CpuDeviceTest, OneThreadMeansTheCallersAndSeveralMeanSeveral) {
  workers.clear();
  CpuDevice(1).launch(record, nullptr, nullptr, 100, 1);
  EXPECT_THAT(workers, testing::ElementsAre(std::this_thread::get_id()));
  workers.clear();
  CpuDevice(3).launch(record, nullptr, nullptr, 99, 1);
  EXPECT_EQ(workers.size(), 3u);
}

void addOne(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto *values = static_cast<int64_t *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    values[i] = values[(i)] + scalars[0];
}

// Launches follow each other closely, with pauses long enough for workers to fall asleep in between.
TEST(CpuDeviceTest, EachLaunchSeesTheResultsOfTheOneBefore) {
  CpuDevice device(4);
  std::vector<int64_t> values(1001);
  void *buffers[] = {values.data()};
  int64_t scalars[] = {1};
  for (int launch = 0; launch < 2000; ++launch) {
    device.launch(addOne, buffers, scalars, 1001, 10);
    if (launch % 500 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_THAT(values, testing::Each(2000));
}

//===----------------------------------------------------------------------===//
// Stream
//===----------------------------------------------------------------------===//

TEST(StreamTest, RunsInOrderOnAnotherThread) {
  std::vector<int> order;
  std::thread::id ran;
  Stream stream;
  uint64_t ticket = 0;
  for (int i = 0; i < 100; ++i)
    ticket = stream.enqueue([&, i] {
      order.push_back(i);
      ran = std::this_thread::get_id();
    });
  stream.wait(ticket);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(StreamTest, WaitingThrowsWhatTheWorkThrewAndNothingRunsAfterIt) {
  Stream stream;
  std::atomic<bool> ranAfter = false;
  uint64_t first = stream.enqueue([] {});
  stream.wait(first);
  stream.enqueue([] { throw std::runtime_error("lost"); });
  uint64_t last = stream.enqueue([&] { ranAfter = true; });
  EXPECT_THROW(stream.wait(last), std::runtime_error);
  EXPECT_THROW(stream.wait(last), std::runtime_error);
  EXPECT_FALSE(ranAfter);
}

} // namespace
} // namespace dtc
