#include "runtime/liveness/control_block.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace dtc {

using Clock = std::chrono::steady_clock;

/// How long a rank keeps its core for itself while it waits, and how long it waits awake before it sleeps.
static constexpr auto SpinTime = std::chrono::microseconds(5), AwakeTime = std::chrono::microseconds(50);
/// How long a rank sleeps before it does what others may be waiting for.
static constexpr auto NapTime = std::chrono::milliseconds(1);
/// Between two looks at whether the awaited peer still lives.
static constexpr auto LivenessInterval = std::chrono::milliseconds(100);

struct ControlBlock::Head {
  enum Failure : uint32_t { None, BeingWritten, Recorded };
  std::atomic<uint32_t> ranks;
  std::atomic<uint32_t> failure;
  int32_t failedRank;
  char reason[4096 - 12]; // ends in a zero
};

static uint64_t counterRowBytes(int ranks) { return (uint64_t(ranks) * sizeof(uint32_t) + 63) / 64 * 64; }

uint64_t ControlBlock::bytesFor(int ranks) {
  return sizeof(Head) + uint64_t(ranks) * (sizeof(RankState) + Lanes * (sizeof(LaneState) + counterRowBytes(ranks)));
}

ControlBlock::ControlBlock(void *memory, int ranks, int self, std::function<bool(int)> alive, std::vector<int> names)
    : head(static_cast<Head *>(memory)), rankCount(ranks), ownRank(self), alive(std::move(alive)),
      names(std::move(names)), expected(size_t(Lanes) * ranks) {
  states = reinterpret_cast<RankState *>(static_cast<std::byte *>(memory) + sizeof(Head));
  lanes = reinterpret_cast<LaneState *>(states + ranks);
  counters = reinterpret_cast<std::byte *>(lanes + size_t(Lanes) * ranks);
  crowded = unsigned(ranks) > std::thread::hardware_concurrency();

  uint32_t known = 0;
  if (!head->ranks.compare_exchange_strong(known, ranks) && known != uint32_t(ranks))
    throw Error(ExitCode::BadInput, "rank " + std::to_string(nameOf(self)) + " was started as one of " +
                                        std::to_string(ranks) + " ranks, its peers as " + std::to_string(known) +
                                        "; start all ranks with the same count");
}

std::atomic<uint32_t> &ControlBlock::counter(uint32_t lane, int at, int by) const {
  uint64_t row = uint64_t(lane) * rankCount + at;
  return reinterpret_cast<std::atomic<uint32_t> *>(counters + row * counterRowBytes(rankCount))[by];
}

//===----------------------------------------------------------------------===//
// Joining and leaving
//===----------------------------------------------------------------------===//

void ControlBlock::join(const ArenaNotice &notice) {
  states[ownRank].arena = notice;
  states[ownRank].phase.store(Joined);
}

void ControlBlock::awaitAll(std::chrono::milliseconds timeout) {
  auto deadline = Clock::now() + timeout;
  auto isMissing = [&](int rank) { return !hasJoined(rank) || hasResigned(rank); };
  // Very many that wait must leave the cores to those who come.
  const std::chrono::microseconds longest(2000 + 100 * rankCount);
  auto nextLook = Clock::now() + LivenessInterval;
  for (int rank = 0; rank < rankCount; ++rank) {
    for (auto pause = std::chrono::microseconds(20); isMissing(rank); pause = std::min(pause * 2, longest)) {
      throwIfFailed();
      if (Clock::now() > deadline)
        throw Error("rank " + std::to_string(nameOf(rank)) +
                    (names.empty() ? " of " + std::to_string(rankCount) : " of this host") + " did not start within " +
                    std::to_string(timeout.count() / 1000) + " s");
      if (Clock::now() > nextLook) {
        lookAtNext();
        nextLook = Clock::now() + LivenessInterval;
      }
      std::this_thread::sleep_for(pause);
    }
  }
}

/// Somebody who has joined may die before the last one comes. Each looks after the next of them, for a look takes as
/// long as there are ranks: were all to look at all, 256 would do nothing else.
void ControlBlock::lookAtNext() {
  for (int step = 1; step < rankCount; ++step) {
    int next = (ownRank + step) % rankCount;
    if (!isPresent(next))
      continue;
    if (!alive(next))
      fail(nameOf(next), "its process ended while the job was starting");
    return;
  }
}

void ControlBlock::leave() noexcept {
  states[ownRank].phase.store(Left);
  ringAll();
}

void ControlBlock::resign() noexcept { states[ownRank].phase.store(Resigned); }

//===----------------------------------------------------------------------===//
// Synchronising
//===----------------------------------------------------------------------===//

static void futexWait(std::atomic<uint32_t> &word, uint32_t value, std::chrono::nanoseconds most) {
  timespec timeout{0, most.count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void ControlBlock::ring(uint32_t lane, int rank) noexcept {
  std::atomic<uint32_t> &doorbell = laneState(lane, rank).doorbell;
  doorbell.fetch_add(1);
  syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Whoever is about to sleep says so before it looks for the last time.
void ControlBlock::ringAll() noexcept {
  for (uint32_t lane = 0; lane < Lanes; ++lane)
    for (int rank = 0; rank < rankCount; ++rank)
      if (laneState(lane, rank).sleeping.load(std::memory_order_seq_cst))
        ring(lane, rank);
}

/// Whether a counter has come to `target`; counters wrap around.
static bool reached(const std::atomic<uint32_t> &counter, uint32_t target) {
  return static_cast<int32_t>(counter.load(std::memory_order_seq_cst) - target) >= 0;
}

void ControlBlock::raise(uint32_t lane, int peer) {
  std::atomic<uint32_t> &word = counter(lane, peer, ownRank);
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (laneState(lane, peer).sleeping.load(std::memory_order_seq_cst) == uint32_t(ownRank) + 1)
    ring(lane, peer);
}

void ControlBlock::await(uint32_t lane, int peer) {
  uint32_t target = ++expected[lane * rankCount + peer];
  const std::atomic<uint32_t> &word = counter(lane, ownRank, peer);
  if (reached(word, target))
    return;
  // Where ranks share cores, the awaited one may need ours: give it away instead of spinning. Both are cheaper than
  // sleeping and being woken (4 ranks on 2 cores: a small all-reduce takes half the time). Other work may crowd the
  // cores as well, so nobody spins for long.
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
  beforeSleep(false);
  sleepUntil(lane, peer, target);
}

void ControlBlock::sleepUntil(uint32_t lane, int peer, uint32_t target) {
  LaneState &own = laneState(lane, ownRank);
  const std::atomic<uint32_t> &word = counter(lane, ownRank, peer);
  auto napEnd = Clock::now() + NapTime, nextLook = napEnd + LivenessInterval;
  bool hasSlept = false;
  own.sleeping.store(uint32_t(peer) + 1, std::memory_order_seq_cst);
  while (true) {
    uint32_t bell = own.doorbell.load(std::memory_order_seq_cst);
    if (reached(word, target))
      break;
    auto now = Clock::now();
    if (!hasSlept && now >= napEnd) {
      hasSlept = true;
      beforeSleep(true);
    }
    if (now >= nextLook) {
      failIfGone(lane, peer, target);
      nextLook = now + LivenessInterval;
    }
    throwIfFailed();
    futexWait(own.doorbell, bell, hasSlept ? LivenessInterval : NapTime);
  }
  own.sleeping.store(0, std::memory_order_relaxed);
}

void ControlBlock::failIfGone(uint32_t lane, int peer, uint32_t target) {
  bool left = states[peer].phase.load() != Joined;
  if (!left && alive(peer))
    return;
  // It may have raised its counter just before it went.
  if (!reached(counter(lane, ownRank, peer), target))
    fail(nameOf(peer), left ? "it ended while its peers went on" : "its process died");
}

void ControlBlock::arrive(uint32_t lane, const std::vector<int> &members) {
  for (int member : members)
    if (member != ownRank)
      raise(lane, member);
}

void ControlBlock::awaitOthers(uint32_t lane, const std::vector<int> &members) {
  for (int member : members)
    if (member != ownRank)
      await(lane, member);
}

bool ControlBlock::othersHaveArrived(uint32_t lane, const std::vector<int> &members) const {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    return member == ownRank ||
           reached(counter(lane, ownRank, member), expected[size_t(lane) * rankCount + member] + 1);
  });
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

void ControlBlock::fail(int name, std::string_view reason) noexcept {
  uint32_t none = Head::None;
  if (!head->failure.compare_exchange_strong(none, Head::BeingWritten))
    return;
  head->failedRank = name;
  size_t length = std::min(reason.size(), sizeof(head->reason) - 1);
  std::memcpy(head->reason, reason.data(), length);
  head->reason[length] = 0;
  head->failure.store(Head::Recorded);
  ringAll();
}

std::optional<FailureNotice> ControlBlock::failure() const {
  if (head->failure.load() != Head::Recorded)
    return std::nullopt;
  return FailureNotice{head->failedRank, head->reason};
}

std::string describeFailure(const FailureNotice &notice) {
  return (notice.rank < 0 ? "the launcher" : "rank " + std::to_string(notice.rank)) + " was lost: " + notice.reason;
}

void ControlBlock::throwIfFailed() const {
  if (std::optional<FailureNotice> notice = failure())
    throw PeerLostError(notice->rank, describeFailure(*notice));
}

void ControlBlock::checkPeers() {
  for (int peer = 0; peer < rankCount; ++peer)
    if (peer != ownRank && states[peer].phase.load() == Joined && !alive(peer))
      fail(nameOf(peer), "its process died");
  throwIfFailed();
}

} // namespace dtc
