// How ranks exchange data. One interface; today's transports are the arenas of ranks on one host, as threads of one
// process (in_process.h) or as processes (shared_memory.h), both through the algorithms of peer_memory.h.
//
// Starting a command on its group's channel gives a handle to wait for. Commands on one channel run in the order in
// which they were started; commands on different channels run concurrently. Nothing else about their timing is
// guaranteed. All ranks start shared commands in the same order. One thread starts and waits; before it does anything
// else, it hands over what it has started.
//
// A wait gives the data, or throws PeerLostError naming the rank that died, left or gave up, within seconds and on
// every rank that waits for anything. After an exception the communicator can only be destroyed.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/abi/mesh.h"
#include "runtime/liveness/whereabouts.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace dtc {

class ControlBlock;

/// In which order a reduction adds its terms.
enum class SumOrder {
  Ranks,      ///< the order of the group's members
  HostsFirst, ///< in groups with several members on each host, reductions add within hosts first, then add these sums
              ///< in the order of the hosts' first members; all other reductions, and always LOG_SUM_EXP, use the order
              ///< of members
  Library,    ///< the library's own order
};

/// What a transport can do by itself; for anything else the compiler inserts packing or copies.
struct CommunicatorCapabilities {
  bool strided = false;           ///< parts of a tensor that are not contiguous: rows, all-to-all
  bool inPlace = false;           ///< an all-reduce may write over its input
  bool deterministicSums = false; ///< sums do not depend on timing and are equal on all ranks
  bool deviceMemory = false;      ///< operands that the host cannot read
  bool deviceOrder = false;       ///< starts and waits are queued on the device, so the host need not wait
  bool weightedRows = false;      ///< reductions of rows with logarithms of their weights (LOG_SUM_EXP)
  bool unevenParts = false;       ///< all-to-alls that send as many rows as `counts` say
  SumOrder sumOrder = SumOrder::Ranks;
};

/// When a command ran: CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock); with deviceOrder, numbers of the
/// device's marks (Device::mark), if times were requested.
struct CommandTimes {
  int64_t begin = 0, end = 0;
};

/// A command in progress. Wait for it once.
struct CommandHandle {
  uint32_t channel = 0;
  uint64_t ticket = 0; ///< the channel's
  std::shared_ptr<CommandTimes> times;
};

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual CommunicatorCapabilities capabilities() const = 0;

  /// Starts a start, send or recv of a list over `group`, which was made for this rank. Shapes and semantics: messages
  /// Collective and Transfer in manifest.proto; offsets are into each rank's own arena and may differ between ranks.
  /// What other ranks access (inputs, what is sent, and an all-reduce's output, which they write) must be in the
  /// arena's shared part. The operands are complete (with deviceOrder: after all work queued on the device before), and
  /// do not change until the wait. `command` outlives it. Each part of a collective with `more` parts is started
  /// separately and has its own handle. All parts begin with the start of the last one, cost one round trip, and finish
  /// together. Each gives the same bits as alone.
  virtual CommandHandle start(const Group &group, const abi::Command &command) = 0;

  /// Lets what was started make progress although nobody waits for it. wait() and exchange() do this themselves. A
  /// caller that turns to other work must call this: otherwise it may be about to wait, and the waiting thread itself
  /// best runs a command of a few microseconds.
  virtual void handOver() {}

  /// Returns when the command is done: its result may be read, its operands changed.
  virtual CommandTimes wait(const CommandHandle &handle) = 0;

  /// Start and wait in one call, for commands that overlap nothing.
  virtual CommandTimes run(const Group &group, const abi::Command &command) { return wait(start(group, command)); }

  /// Whether to record the times of commands started from now on. Without deviceOrder they are always recorded.
  virtual void askForTimes(bool /*ask*/) {}

  /// Gathers one number from every rank, for decisions of the host (stop now? whose value was not finite?). It is also
  /// a barrier over all ranks, whatever is running on the channels.
  virtual std::vector<int64_t> exchange(int64_t value) = 0;

  void barrier() { exchange(0); }

  /// Throws PeerLostError if a rank is known to have died or given up. Does not wait; may be called from any thread.
  virtual void checkPeers() {}

  /// This rank's progress, which the caller records and peers may see.
  Whereabouts &whereabouts() { return *ownPlace; }

  /// The control block that the ranks of this host share; null if there is none.
  virtual const ControlBlock *meetingPlace() const { return nullptr; }

  /// Tells all ranks that this one gives up and why. Ranks that wait, now or later, throw PeerLostError. May be called
  /// from any thread, even after an exception; only the first call in the job counts.
  virtual void poison(std::string_view why) noexcept = 0;

protected:
  /// Sets the place where others see this rank's progress.
  void showWhereabouts(Whereabouts &place) { ownPlace = &place; }

private:
  Whereabouts unseen;
  Whereabouts *ownPlace = &unseen;
};

} // namespace dtc
