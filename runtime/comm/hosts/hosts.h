// The communicator of a job on several hosts: shared memory within a host, connections between hosts.
//
// Commands of a group on one host run as in peer_memory.h, all others as in spanning_group.h. Each kind has its own
// channels, so that a group of one kind never queues behind a group of the other. As in peer_memory.h, a channel has a
// thread as soon as something is started on it, and a waiting thread runs a command itself if the channel's thread has
// not begun it.
//
// Failures are passed on both ways: failures that this host's ranks notice among themselves go to the membership, and
// failures that the membership reports wake ranks that wait in shared memory. All ranks name the membership's first
// failure.
#pragma once

#include "runtime/comm/hosts/spanning_group.h"
#include "runtime/comm/local/peer_memory.h"
#include "runtime/comm/local/shared_memory.h"
#include "runtime/device/stream.h"
#include "runtime/meeting/membership.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace dtc {

class HostsCommunicator final : public Communicator {
public:
  /// `local`: this host's ranks in the order of their numbers in the job, which its control block uses as names.
  HostsCommunicator(std::shared_ptr<Membership> membership, SharedArenas local, HostsOptions options = {});
  ~HostsCommunicator() override;

  /// Connects the members of a group, unless all are on this host, and measures the links between them. All ranks call
  /// it for their groups in the same order, before the first command. A group that is not connected by then is
  /// connected at its first start, which waits for the other members.
  void connect(const Group &group);

  int rank() const override { return membership->rank(); }
  int size() const override { return membership->size(); }
  CommunicatorCapabilities capabilities() const override {
    return {.strided = true,
            .inPlace = true,
            .deterministicSums = true,
            .weightedRows = true,
            .unevenParts = true,
            .sumOrder = SumOrder::HostsFirst};
  }
  CommandHandle start(const Group &group, const abi::Command &command) override;
  void handOver() override;
  CommandTimes wait(const CommandHandle &handle) override;
  CommandTimes run(const Group &group, const abi::Command &command) override;
  std::vector<int64_t> exchange(int64_t value) override;
  void checkPeers() override;
  const ControlBlock *meetingPlace() const override { return local->meetingPlace(); }
  void poison(std::string_view why) noexcept override;

private:
  /// A command in flight, or the parts of one.
  struct Flight {
    std::vector<const abi::Command *> parts;
    CommandTimes times;
  };
  struct Channel {
    std::unique_ptr<Stream> stream; ///< null: nothing has been started yet
    bool unheard = false;           ///< the stream's thread has not been woken for the last start
    std::shared_ptr<Flight> gathering; ///< a collective whose remaining parts are still to be started
    uint64_t lastTicket = 0;           ///< the stream's tickets, which count from 1
    uint64_t started = 0, waited = 0;
    bool isIdle() const { return started == waited; }
  };

  bool isHere(const Group &group) const;
  Group amongLocal(const Group &group) const;
  SpanningGroup &spanning(const Group &group);
  void handOverSpanning();
  template <typename Work> auto telling(const Work &work) const;

  std::shared_ptr<Membership> membership;
  std::shared_ptr<void> resources;
  std::vector<std::byte *> bases, stages;
  ControlBlock control; ///< this rank's second view, of the lanes of groups that span hosts
  Descriptor leaving;   ///< readable once this object is being destroyed
  HostsContext context;
  std::unique_ptr<PeerMemory> local;
  std::map<std::pair<uint32_t, std::vector<int>>, std::unique_ptr<SpanningGroup>> groups;
  std::array<Channel, abi::MaximumChannels> channels; // last member: their threads end before what they use is
                                                      // destroyed
};

/// Joins this rank's host and makes its communicator. `local`: where the ranks of this host meet; its rank, size and
/// names are filled in here. Connects `groups`, which are all groups of this rank. `arena` outlives the communicator.
/// Throws like connectSharedMemory and Membership::connect.
std::unique_ptr<Communicator> connectHosts(std::shared_ptr<Membership> membership, SharedMemoryOptions local,
                                           Arena &arena, const std::vector<Group> &groups, HostsOptions options = {});

} // namespace dtc
