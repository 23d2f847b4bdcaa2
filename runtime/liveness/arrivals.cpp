#include "runtime/liveness/arrivals.h"

#include "runtime/liveness/doorbells.h"
#include "runtime/liveness/failure_record.h"

#include <algorithm>
#include <chrono>
#include <sched.h>
#include <thread>

namespace dtc {

using Clock = std::chrono::steady_clock;

/// How long a waiting rank spins, and how long it stays awake before it sleeps.
static constexpr auto SpinTime = std::chrono::microseconds(5), AwakeTime = std::chrono::microseconds(50);
/// How long a rank sleeps before it does work that others may be waiting for.
static constexpr auto NapTime = std::chrono::milliseconds(1);

Arrivals::Arrivals(const ControlMemory &memory, int self)
    : memory(memory), ownRank(self), crowded(unsigned(memory.ranks()) > std::thread::hardware_concurrency()),
      expected(size_t(ControlMemory::Lanes) * memory.ranks()) {}

/// Whether a counter has reached `target`; counters wrap around.
static bool reached(const std::atomic<uint32_t> &counter, uint32_t target) {
  return static_cast<int32_t>(counter.load(std::memory_order_seq_cst) - target) >= 0;
}

void Arrivals::raise(uint32_t lane, int peer) {
  std::atomic<uint32_t> &word = memory.counter(lane, peer, ownRank);
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (memory.laneState(lane, peer).sleeping.load(std::memory_order_seq_cst) == uint32_t(ownRank) + 1)
    Doorbells(memory).ring(lane, peer);
}

void Arrivals::await(uint32_t lane, int peer, const Waiting &waiting) {
  uint32_t target = ++expected[lane * memory.ranks() + peer];
  const std::atomic<uint32_t> &word = memory.counter(lane, ownRank, peer);
  if (reached(word, target))
    return;
  // If ranks share cores, the awaited one may need ours: yield it instead of spinning. Both are cheaper than sleeping
  // and being woken (4 ranks on 2 cores: a small all-reduce takes half the time). Other work may compete for the cores,
  // too, so no rank spins for long.
  auto begin = Clock::now();
  auto spinEnd = crowded ? begin : begin + SpinTime;
  for (auto now = begin; now < begin + AwakeTime; now = Clock::now()) {
    if (reached(word, target))
      return;
    if (now < spinEnd)
      __builtin_ia32_pause();
    else
      sched_yield();
  }
  waiting.beforeSleep(false);
  sleepUntil(lane, peer, target, waiting);
}

void Arrivals::sleepUntil(uint32_t lane, int peer, uint32_t target, const Waiting &waiting) {
  ControlMemory::LaneState &own = memory.laneState(lane, ownRank);
  const std::atomic<uint32_t> &word = memory.counter(lane, ownRank, peer);
  const FailureRecord failures(memory);
  auto napEnd = Clock::now() + NapTime, nextLook = napEnd + Presence::LivenessInterval;
  bool hasSlept = false;
  own.sleeping.store(uint32_t(peer) + 1, std::memory_order_seq_cst);
  while (true) {
    uint32_t bell = own.doorbell.load(std::memory_order_seq_cst);
    if (reached(word, target))
      break;
    auto now = Clock::now();
    if (!hasSlept && now >= napEnd) {
      hasSlept = true;
      waiting.beforeSleep(true);
    }
    if (now >= nextLook) {
      failIfGone(lane, peer, target, waiting.presence);
      nextLook = now + Presence::LivenessInterval;
    }
    failures.throwIfFailed();
    Doorbells::sleep(own.doorbell, bell, hasSlept ? Presence::LivenessInterval : NapTime);
  }
  own.sleeping.store(0, std::memory_order_relaxed);
}

void Arrivals::failIfGone(uint32_t lane, int peer, uint32_t target, const Presence &presence) {
  bool left = !presence.isPresent(peer);
  if (!left && presence.isAlive(peer))
    return;
  // It may have raised its counter just before it left.
  if (!reached(memory.counter(lane, ownRank, peer), target))
    FailureRecord(memory).record(presence.nameOf(peer), left ? "it ended while its peers went on" : "its process died");
}

void Arrivals::arrive(uint32_t lane, const std::vector<int> &members) {
  for (int member : members)
    if (member != ownRank)
      raise(lane, member);
}

void Arrivals::awaitOthers(uint32_t lane, const std::vector<int> &members, const Waiting &waiting) {
  for (int member : members)
    if (member != ownRank)
      await(lane, member, waiting);
}

bool Arrivals::othersHaveArrived(uint32_t lane, const std::vector<int> &members) const {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    return member == ownRank ||
           reached(memory.counter(lane, ownRank, member), expected[size_t(lane) * memory.ranks() + member] + 1);
  });
}

} // namespace dtc
