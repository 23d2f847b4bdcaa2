// The layout of the memory that the ranks of one host share to meet, in this order:
//
//   Head        how many ranks there are, and which one failed first
//   RankState   one for each rank: whether it is there, its arena, where it stands
//   LaneState   one for each lane and rank: which peer it sleeps for, what it brings to a collective
//   counters    one for each lane and pair of ranks: how far one has come with the other (arrivals.h)
//
// There is a lane for every channel of collectives, so that the channels' threads can synchronize at the same time, and
// one for the ranks' host threads.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/liveness/ticket.h"
#include "runtime/liveness/whereabouts.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dtc {

/// What a rank tells the others about its arena when it joins.
struct ArenaNotice {
  uint64_t bytes, sharedBegin;       ///< the arena's sizes
  uint64_t mappedBegin, mappedBytes; ///< what peers map
  std::byte *base;                   ///< for ranks in one process
};

/// A view of memory that others own.
class ControlMemory {
public:
  /// Lanes 0 to MaximumChannels - 1 belong to the channels; as many from SpanningLane on are for groups that also have
  /// members on other hosts.
  static constexpr uint32_t HostLane = abi::MaximumChannels, SpanningLane = HostLane + 1,
                            Lanes = SpanningLane + abi::MaximumChannels;

  struct Head {
    enum Failure : uint32_t { None, BeingWritten, Recorded };
    std::atomic<uint32_t> ranks;
    std::atomic<uint32_t> failure;
    int32_t failedRank;
    char reason[4096 - 12]; // zero-terminated
  };
  enum Phase : uint32_t { Absent, Joined, Left, Resigned };
  struct alignas(64) RankState {
    std::atomic<uint32_t> phase;
    ArenaNotice arena;
    Whereabouts whereabouts;
  };
  struct alignas(64) LaneState {
    std::atomic<uint32_t> doorbell; // a futex
    std::atomic<uint32_t> sleeping; // 1 plus the peer that it sleeps for; 0: it is awake
    alignas(64) Ticket ticket;
  };

  /// Bytes of zeroed memory that `ranks` ranks need.
  static uint64_t bytesFor(int ranks);

  ControlMemory(void *memory, int ranks);

  int ranks() const { return rankCount; }
  Head &head() const { return *first; }
  RankState &state(int rank) const { return states[rank]; }
  LaneState &laneState(uint32_t lane, int rank) const { return lanes[lane * rankCount + rank]; }
  /// The counter at rank `at` that rank `by` raises.
  std::atomic<uint32_t> &counter(uint32_t lane, int at, int by) const;

private:
  Head *first;
  RankState *states;
  LaneState *lanes;
  std::byte *counters;
  int rankCount;
};

} // namespace dtc
