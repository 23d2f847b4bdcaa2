// The memory in which the ranks of one host meet: who is there, who waits for whom, who failed.
//
// Ranks synchronise in pairs. Rank a holds one counter for each rank b that b raises ("b has come this far with a"); to
// synchronise, the members of a group raise their counter at every other member and wait until every other member
// has raised theirs. That needs no state per group, no read-modify-write of a shared word and no election; and since
// any two ranks meet in the same order, a counter is enough to tell one meeting from the next.
//
// All of that is there once for each lane: one for every channel of collectives, on which threads of their own may meet
// at the same time, and one for the ranks' hosts.
//
// A waiting rank spins for a few microseconds, gives its core away for some more, then sleeps on its own doorbell,
// which a raising rank rings only when told that its owner sleeps for this very rank: flag (write counter, then read
// `sleeping`) against (write `sleeping`, then read counter), both sequentially consistent, so that one of the two sees
// the other.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/groups.h"
#include "runtime/liveness/whereabouts.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// What a rank tells the others about its arena when it joins.
struct ArenaNotice {
  uint64_t bytes, sharedBegin;       ///< as the arena was made
  uint64_t mappedBegin, mappedBytes; ///< what peers map
  std::byte *base;                   ///< for ranks of one process
};

/// Which rank of the job failed first, and why.
struct FailureNotice {
  int rank;
  std::string reason;
};

/// "rank 3 was lost: ..."; where there is no rank (-1), it was the launcher.
std::string describeFailure(const FailureNotice &notice);

/// What a rank tells its peers at the start of a collective, before they synchronise.
struct Ticket {
  struct Operands {
    uint64_t input, output; ///< offsets in its arena
    /// Likewise: of LOG_SUM_EXP the logarithms of input and output, of an all-to-all with counts the counts.
    uint64_t besideInput, besideOutput;
  };
  Operands parts[abi::MaximumParts]; ///< of a collective of several parts, of each
  uint64_t signature; ///< hash of everything the members must agree on
  int64_t value;      ///< for exchange()
};

/// One rank's view of the control block. One thread at a time waits on a lane; fail() may be called from any.
class ControlBlock {
public:
  /// Lanes 0 to MaximumChannels - 1 are the channels'; as many from SpanningLane on are those of groups that have
  /// members on other hosts too.
  static constexpr uint32_t HostLane = abi::MaximumChannels, SpanningLane = HostLane + 1,
                            Lanes = SpanningLane + abi::MaximumChannels;

  /// Bytes of zeroed memory that `ranks` ranks need.
  static uint64_t bytesFor(int ranks);

  /// `alive(r)`: whether the owner of rank r, which has joined, still runs. `names`: what the ranks are called in a job
  /// of several hosts; none where they are the whole job.
  ControlBlock(void *memory, int ranks, int self, std::function<bool(int)> alive, std::vector<int> names = {});

  int ranks() const { return rankCount; }
  int self() const { return ownRank; }
  /// The job's number of a rank, which is what failures and messages speak of.
  int nameOf(int rank) const { return names.empty() ? rank : names[rank]; }
  /// Whether the job has other hosts too.
  bool isPartOfJob() const { return !names.empty(); }

  void join(const ArenaNotice &notice);
  /// Waits until all ranks have joined. Throws Error (Runtime) naming the first that has not after `timeout`.
  void awaitAll(std::chrono::milliseconds timeout);
  const ArenaNotice &arenaOf(int rank) const { return states[rank].arena; }
  void leave() noexcept;
  /// Gives up because of something that another rank reports: whoever looks for the cause looks elsewhere.
  void resign() noexcept;
  bool hasResigned(int rank) const { return states[rank].phase.load() == Resigned; }
  bool hasJoined(int rank) const { return states[rank].phase.load() != Absent; }

  Whereabouts &whereabouts(int rank) const { return states[rank].whereabouts; }
  /// Whether a rank has joined and not left.
  bool isPresent(int rank) const { return states[rank].phase.load() == Joined; }

  Ticket &ticket(uint32_t lane, int rank) { return laneState(lane, rank).ticket; }

  /// Returns when all members have called it for this lane. Writes before it are visible to all members after it.
  void synchronize(uint32_t lane, const std::vector<int> &members) {
    arrive(lane, members);
    awaitOthers(lane, members);
  }
  /// Its two halves: tells the members that this rank is there, and waits until all of them are.
  void arrive(uint32_t lane, const std::vector<int> &members);
  void awaitOthers(uint32_t lane, const std::vector<int> &members);
  /// Whether awaitOthers would return at once.
  bool othersHaveArrived(uint32_t lane, const std::vector<int> &members) const;

  /// Called by each thread that is about to sleep for its peers, and once more when it has slept for a while: they may
  /// be waiting for something that this rank has yet to do.
  std::function<void(bool hasSlept)> beforeSleep = [](bool) {};

  /// Records that the job's rank `name` failed, unless a failure is recorded already, and wakes everybody.
  void fail(int name, std::string_view reason) noexcept;
  /// The failure that was recorded, if one was.
  std::optional<FailureNotice> failure() const;
  /// Throws PeerLostError when a failure is recorded.
  void throwIfFailed() const;
  /// Records ranks whose process has died, and throws as throwIfFailed. Does not wait; from any thread.
  void checkPeers();

private:
  enum Phase : uint32_t { Absent, Joined, Left, Resigned };
  struct Head;
  struct alignas(64) RankState {
    std::atomic<uint32_t> phase;
    ArenaNotice arena;
    Whereabouts whereabouts;
  };
  struct alignas(64) LaneState {
    std::atomic<uint32_t> doorbell; // a futex
    std::atomic<uint32_t> sleeping; // the peer that it sleeps for, and 1; 0: it is awake
    alignas(64) Ticket ticket;
  };

  LaneState &laneState(uint32_t lane, int rank) const { return lanes[lane * rankCount + rank]; }
  /// The counter at rank `at` that rank `by` raises.
  std::atomic<uint32_t> &counter(uint32_t lane, int at, int by) const;
  void raise(uint32_t lane, int peer);
  void await(uint32_t lane, int peer);
  void sleepUntil(uint32_t lane, int peer, uint32_t target);
  void lookAtNext();
  void failIfGone(uint32_t lane, int peer, uint32_t target);
  void ring(uint32_t lane, int rank) noexcept;
  void ringAll() noexcept;

  Head *head;
  RankState *states;
  LaneState *lanes;
  std::byte *counters;
  int rankCount, ownRank;
  bool crowded; // more ranks than cores
  std::function<bool(int)> alive;
  std::vector<int> names;
  std::vector<uint32_t> expected; // per lane and peer: how often it has been awaited
};

} // namespace dtc
