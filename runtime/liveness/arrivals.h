// How ranks wait for each other.
//
// Ranks synchronise in pairs. Rank a holds one counter for each rank b that b raises ("b has come this far with a"); to
// synchronise, the members of a group raise their counter at every other member and wait until every other member
// has raised theirs. That needs no state per group, no read-modify-write of a shared word and no election; and since
// any two ranks meet in the same order, a counter is enough to tell one meeting from the next. All of that is there
// once for each lane.
//
// A waiting rank spins for a few microseconds, gives its core away for some more, then sleeps on its own doorbell,
// which a raising rank rings only when told that its owner sleeps for this very rank: flag (write counter, then read
// `sleeping`) against (write `sleeping`, then read counter), both sequentially consistent, so that one of the two sees
// the other.
#pragma once

#include "runtime/liveness/control_memory.h"
#include "runtime/liveness/presence.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace dtc {

/// As one rank sees them. One thread at a time waits on a lane.
class Arrivals {
public:
  /// What a rank consults while it waits.
  struct Waiting {
    const Presence &presence; ///< whether the awaited peer is still there
    /// As ControlBlock::beforeSleep.
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
  std::vector<uint32_t> expected; // per lane and peer: how often it has been awaited
};

} // namespace dtc
