// How ranks exchange data. One interface; today's transports are the arenas of ranks on one host, as threads of one
// process (in_process.h) or as processes (shared_memory.h), both through the algorithms of peer_memory.h.
//
// A command is started on its group's channel, which gives a handle to wait for. Commands on one channel are carried
// out in the order in which they were started, those on different channels side by side; nothing else is said of when.
// All ranks start what they share in one order. One thread starts and waits; before it turns to anything else, it hands
// over what it has started.
//
// Whoever waits gets the data, or PeerLostError naming the rank that died, left or gave up, on every rank that waits
// for anything, within seconds. After an exception the communicator can only be destroyed.
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
  Ranks,      ///< that of the group's members
  HostsFirst, ///< in groups with several members on each host, reductions add within hosts first, then these sums
              ///< in the order of the hosts' first members; all others in that of members, and LOG_SUM_EXP always
  Library,    ///< whatever the library does
};

/// What a transport can do by itself; what it cannot, the compiler has packed or copied before.
struct CommunicatorCapabilities {
  bool strided = false;           ///< parts of a tensor that do not lie in one piece: rows, all-to-all
  bool inPlace = false;           ///< an all-reduce whose output is its input
  bool deterministicSums = false; ///< sums do not depend on timing and are equal on all ranks
  bool deviceMemory = false;      ///< operands that the host cannot read
  bool deviceOrder = false;       ///< starts and waits stand in the device's order, where the host need not wait
  bool weightedRows = false;      ///< reductions of rows that have logarithms of their weights (LOG_SUM_EXP)
  bool unevenParts = false;       ///< all-to-alls that send as many rows as `counts` say
  SumOrder sumOrder = SumOrder::Ranks;
};

/// When a command was carried out: CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock); with deviceOrder, numbers
/// of the device's moments (Device::mark), where they were asked for.
struct CommandTimes {
  int64_t begin = 0, end = 0;
};

/// A command under way. Waited for once.
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

  /// Begins a start, send or recv of a list over `group`, which was made for this rank. Shapes and semantics: messages
  /// Collective and Transfer in manifest.proto; offsets are into each rank's own arena and may differ between ranks.
  /// What other ranks read (inputs and what is sent, and an all-reduce's output, which they write) must lie in the
  /// arena's shared part. The operands are complete (with deviceOrder: by all that the device was given before), and
  /// stay as they are until the wait. `command` outlives it.
  /// Of a collective that has `more` parts, each is started and has a handle; they begin together with the start of the
  /// last, cost one trip, and are over together. Each gives the bits that it gives alone.
  virtual CommandHandle start(const Group &group, const abi::Command &command) = 0;

  /// What was started makes progress from here on, although nobody waits. wait() and exchange() see to that themselves;
  /// a caller that has other things to do says so, as it may otherwise be about to wait, and a command of some
  /// microseconds is best carried out by who waits for it.
  virtual void handOver() {}

  /// Returns when the command is done: its result may be read, its operands changed.
  virtual CommandTimes wait(const CommandHandle &handle) = 0;

  /// Both at once, for what nothing runs beside.
  virtual CommandTimes run(const Group &group, const abi::Command &command) { return wait(start(group, command)); }

  /// Whether somebody wants to know the times of what is started from here on. Without deviceOrder they are always
  /// told.
  virtual void askForTimes(bool /*ask*/) {}

  /// Gathers one number from every rank, for decisions of the host (stop now? whose value was not finite?). Doubles as
  /// a barrier over all ranks, whatever is under way on the channels.
  virtual std::vector<int64_t> exchange(int64_t value) = 0;

  void barrier() { exchange(0); }

  /// Throws PeerLostError where a rank is known to have died or to have given up. Does not wait; from any thread.
  virtual void checkPeers() {}

  /// Where this rank stands, which its user notes and its peers may see.
  Whereabouts &whereabouts() { return *ownPlace; }

  /// Where the ranks of this host see each other; null where each is alone.
  virtual const ControlBlock *meetingPlace() const { return nullptr; }

  /// Tells all ranks that this one gives up and why; those that wait, now or later, throw PeerLostError. May be called
  /// from any thread, also after an exception; the first call of any rank stands.
  virtual void poison(std::string_view why) noexcept = 0;

protected:
  /// Where others see it.
  void showWhereabouts(Whereabouts &place) { ownPlace = &place; }

private:
  Whereabouts unseen;
  Whereabouts *ownPlace = &unseen;
};

} // namespace dtc
