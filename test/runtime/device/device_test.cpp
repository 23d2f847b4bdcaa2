#include "runtime/device/arena.h"
#include "runtime/device/stream.h"
#include "runtime/support/error.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
// Stream
//===----------------------------------------------------------------------===//

TEST(StreamTest, RunsInOrderOnAnotherThread) {
  std::vector<int> order;
  std::thread::id ran;
  std::atomic<int> done = 0;
  Stream stream;
  uint64_t ticket = 0;
  for (int i = 0; i < 100; ++i)
    ticket = stream.enqueue([&, i] {
      order.push_back(i);
      ran = std::this_thread::get_id();
      ++done;
    });
  while (done < 100) // the thread that waits may do the work
    std::this_thread::yield();
  stream.wait(ticket);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(StreamTest, WhatItsThreadDoesNotHearOfIsDoneByWhoWaits) {
  Stream stream;
  for (int round = 0; round < 100; ++round) {
    std::thread::id ran;
    uint64_t held = stream.enqueue([&] { ran = std::this_thread::get_id(); }, /*wake=*/false);
    if (round % 10 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1)); // for a thread that should not run
    EXPECT_EQ(ran, std::thread::id());
    stream.wait(held);
    EXPECT_EQ(ran, std::this_thread::get_id());
  }
}

TEST(StreamTest, HeldWorkRunsWhenTheThreadIsWokenOrMoreComes) {
  Stream stream;
  for (bool byMore : {false, true}) {
    std::atomic<int> done = 0;
    stream.enqueue([&] { ++done; }, /*wake=*/false);
    uint64_t last = stream.enqueue([&] { ++done; }, /*wake=*/byMore);
    if (!byMore)
      stream.wake();
    for (auto begin = std::chrono::steady_clock::now(); done < 2;)
      ASSERT_LT(std::chrono::steady_clock::now(), begin + std::chrono::seconds(5));
    stream.wait(last);
  }
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
