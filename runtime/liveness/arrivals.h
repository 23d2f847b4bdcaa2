// How ranks wait for each other.
//
// Ranks synchronise in pairs. Rank a has one counter for each rank b, which b raises ("how often b has arrived at a").
// To synchronise, the members of a group raise their counter at every other member and wait until every other member
// has raised theirs. That needs no state per group, no read-modify-write of a shared word and no election; and since
// any two ranks meet in the same order, a counter is enough to tell one meeting from the next. Each lane has its own
// set of counters.
//
// A waiting rank spins for a few microseconds, yields its core for some more, then sleeps on its own doorbell. A
// raising rank rings it only if its owner is sleeping for exactly this rank: flag (write counter, then read `sleeping`)
// against (write `sleeping`, then read counter), both sequentially consistent, so that one of the two sees the other.
#pragma once

#include "runtime/liveness/control_memory.h"
#include "runtime/liveness/presence.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace dtc {

/// One rank's view. One thread at a time waits on a lane.
class Arrivals {
public:
  /// What a rank checks while it waits.
  struct Waiting {
    const Presence &presence; ///< whether the awaited peer is still there
    /// Like ControlBlock::beforeSleep.
    const std::function<void(bool hasSlept)> &beforeSleep;
  };

  Arrivals(const ControlMemory &memory, int self);

  void arrive(uint32_t lane, const std::vector<int> &members);
  void awaitOthers(uint32_t lane, const std::vector<int> &members, const Waiting &waiting);
  bool othersHaveArrived(uint32_t lane, const std::vector<int> &members) const;

private:
  void raise(uint32_t lane, int peer);
  void await(uint32_t lane, int peer, const Waiting &waiting);
  void sleepUntil(uint32_t lane, int peer, uint32_t target, const Waiting &waiting);
  void failIfGone(uint32_t lane, int peer, uint32_t target, const Presence &presence);

  ControlMemory memory;
  int ownRank;
  bool crowded;                   // more ranks than cores
  std::vector<uint32_t> expected; // per lane and peer: how often this rank has waited for it
};

} // namespace dtc
