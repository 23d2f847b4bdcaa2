// The communicator of a job on several hosts: shared memory within a host, connections between hosts.
//
// A group whose members are all on one host is carried out as in peer_memory.h, any other as in spanning_group.h. Each
// of the two has its own channels, so that a group of the one kind never queues behind one of the other. As there, a
// channel has a thread as soon as something is started on it, and whoever waits for what no thread has begun does it
// instead.
//
// A failure in either world is told in the other: what this host's ranks notice of each other goes to the membership,
// and what that says of others wakes those who wait in shared memory. The membership's first failure is the one that
// everybody names.
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
  /// `local`: this host's ranks, in the order of their numbers in the job, by which its control block calls them.
  HostsCommunicator(std::shared_ptr<Membership> membership, SharedArenas local, HostsOptions options = {});
  ~HostsCommunicator() override;

  /// Connects the members of a group, unless all are on this host, and measures the way between them. All ranks call it
  /// in one order of groups, before the first command: a group that is not connected then is at its first start, which
  /// then waits for the others.
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
  /// A command on its way, or the parts of one.
  struct Flight {
    std::vector<const abi::Command *> parts;
    CommandTimes times;
  };
  struct Channel {
    std::unique_ptr<Stream> stream; ///< null: nothing has been started yet
    bool unheard = false;           ///< the stream's thread does not know of what was started last
    std::shared_ptr<Flight> gathering; ///< of which more parts will be started
    uint64_t lastTicket = 0;           ///< the stream's, which count from 1
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
  Descriptor leaving;   ///< readable when this is being destroyed
  HostsContext context;
  std::unique_ptr<PeerMemory> local;
  std::map<std::pair<uint32_t, std::vector<int>>, std::unique_ptr<SpanningGroup>> groups;
  std::array<Channel, abi::MaximumChannels> channels; // last: their threads end before what they use
};

/// Joins this rank's host and makes its communicator. `local`: where the ranks of this host meet; its rank, size and
/// names are filled in. Connects `groups`, which are all of this rank's. `arena` outlives the communicator.
/// Throws as connectSharedMemory and Membership::connect.
std::unique_ptr<Communicator> connectHosts(std::shared_ptr<Membership> membership, SharedMemoryOptions local,
                                           Arena &arena, const std::vector<Group> &groups, HostsOptions options = {});

} // namespace dtc
