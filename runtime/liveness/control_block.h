// Shared state of the ranks of one host: which have joined, which wait for which, which failed. Each rank has its own
// object, a view of memory that all of them share. Its parts:
//
//   control_memory.h   the layout of that memory
//   presence.h         which ranks have joined, left, given up or died
//   arrivals.h         how ranks wait for each other
//   doorbells.h        how sleeping ranks are woken
//   failure_record.h   which rank failed first, and why
//   ticket.h           what a rank brings to a collective
//   whereabouts.h      where a rank stands in its command lists
#pragma once

#include "runtime/liveness/arrivals.h"
#include "runtime/liveness/control_memory.h"
#include "runtime/liveness/failure_record.h"
#include "runtime/liveness/presence.h"
#include "runtime/liveness/ticket.h"
#include "runtime/liveness/whereabouts.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace dtc {

/// One rank's view. One thread at a time waits on a lane; fail() may be called from any.
class ControlBlock {
public:
  static constexpr uint32_t HostLane = ControlMemory::HostLane, SpanningLane = ControlMemory::SpanningLane;

  /// Bytes of zeroed memory that `ranks` ranks need.
  static uint64_t bytesFor(int ranks) { return ControlMemory::bytesFor(ranks); }

  /// `alive(r)`: whether the owner of rank r, which has joined, is still running. `names`: the ranks' numbers in a job
  /// of several hosts; empty if they are the whole job.
  ControlBlock(void *memory, int ranks, int self, std::function<bool(int)> alive, std::vector<int> names = {});

  int ranks() const { return memory.ranks(); }
  int self() const { return ownRank; }
  /// A rank's number in the job, which failures and messages use.
  int nameOf(int rank) const { return presence.nameOf(rank); }
  /// Whether the job has other hosts, too.
  bool isPartOfJob() const { return presence.isPartOfJob(); }

  void join(const ArenaNotice &notice) { presence.join(notice); }
  /// Waits until all ranks have joined. Throws Error (Runtime) naming the first that has not after `timeout`.
  void awaitAll(std::chrono::milliseconds timeout) { presence.awaitAll(timeout); }
  const ArenaNotice &arenaOf(int rank) const { return memory.state(rank).arena; }
  void leave() noexcept { presence.leave(); }
  /// Gives up because of a failure that another rank reports. This rank is then not treated as the cause.
  void resign() noexcept { presence.resign(); }
  bool hasResigned(int rank) const { return presence.hasResigned(rank); }
  bool hasJoined(int rank) const { return presence.hasJoined(rank); }
  /// Whether a rank has joined and not left.
  bool isPresent(int rank) const { return presence.isPresent(rank); }

  Whereabouts &whereabouts(int rank) const { return memory.state(rank).whereabouts; }
  Ticket &ticket(uint32_t lane, int rank) { return memory.laneState(lane, rank).ticket; }

  /// Returns when all members have called it for this lane. Writes before it are visible to all members after it.
  void synchronize(uint32_t lane, const std::vector<int> &members) {
    arrive(lane, members);
    awaitOthers(lane, members);
  }
  /// The two halves of synchronize(): announces this rank's arrival to the members, and waits until all have arrived.
  void arrive(uint32_t lane, const std::vector<int> &members);
  void awaitOthers(uint32_t lane, const std::vector<int> &members);
  /// Whether awaitOthers would return at once.
  bool othersHaveArrived(uint32_t lane, const std::vector<int> &members) const;

  /// Called by each thread that is about to sleep while waiting for peers, and again when it has slept for a while: the
  /// peers may be waiting for something that this rank has yet to do.
  std::function<void(bool hasSlept)> beforeSleep = [](bool) {};

  /// Records that the job's rank `name` failed, unless a failure is already recorded, and wakes all ranks.
  void fail(int name, std::string_view reason) noexcept { failures.record(name, reason); }
  /// The recorded failure, if any.
  std::optional<FailureNotice> failure() const { return failures.read(); }
  /// Throws PeerLostError when a failure is recorded.
  void throwIfFailed() const { failures.throwIfFailed(); }
  /// Records ranks whose process has died, and throws like throwIfFailed. Does not wait; may be called from any thread.
  void checkPeers() { presence.checkPeers(); }

private:
  ControlMemory memory;
  int ownRank;
  FailureRecord failures;
  Presence presence;
  Arrivals arrivals;
};

} // namespace dtc
