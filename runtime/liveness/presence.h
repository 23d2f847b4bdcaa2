// Which ranks of a host have joined, left, given up or died.
#pragma once

#include "runtime/liveness/control_memory.h"
#include "runtime/liveness/failure_record.h"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace dtc {

/// One rank's view. Records a rank whose process has died as the job's failure.
class Presence {
public:
  /// The time between two checks that an awaited peer is alive.
  static constexpr auto LivenessInterval = std::chrono::milliseconds(100);

  /// Like ControlBlock.
  Presence(const ControlMemory &memory, int self, std::function<bool(int)> alive, std::vector<int> names)
      : memory(memory), failures(memory), ownRank(self), aliveAt(std::move(alive)), names(std::move(names)) {}

  int nameOf(int rank) const { return names.empty() ? rank : names[rank]; }
  bool isPartOfJob() const { return !names.empty(); }

  void join(const ArenaNotice &notice);
  void awaitAll(std::chrono::milliseconds timeout);
  void leave() noexcept;
  void resign() noexcept;

  bool hasResigned(int rank) const { return memory.state(rank).phase.load() == ControlMemory::Resigned; }
  bool hasJoined(int rank) const { return memory.state(rank).phase.load() != ControlMemory::Absent; }
  bool isPresent(int rank) const { return memory.state(rank).phase.load() == ControlMemory::Joined; }
  /// Whether the process of a rank that has joined is still running.
  bool isAlive(int rank) const { return aliveAt(rank); }

  void checkPeers();

private:
  void lookAtNext();

  ControlMemory memory;
  FailureRecord failures;
  int ownRank;
  std::function<bool(int)> aliveAt;
  std::vector<int> names;
};

} // namespace dtc
