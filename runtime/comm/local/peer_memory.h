// The collectives of ranks that can read and write each other's arenas directly.
//
// Each channel has a lane of the control block. It gets a thread as soon as something is started on it that is not
// waited for at once.
//
// A channel's thread runs the commands in its queue. A waiting thread runs a command itself if the channel's thread has
// not begun it, so that short commands need no switch to another thread. Peers learn of a command when it is started,
// if nothing else is running on its channel.
//
// A collective of several parts synchronizes once: all offsets are published together, and all parts are moved.
//
// Every collective is: publish my offsets, synchronise (all inputs are complete), move data, synchronise (no peer reads
// my input or writes my output any more). Nothing is packed or staged.
//   all-reduce      Each member reduces its slice of the elements over all members' inputs and writes it into every
//                   member's output. Each element is read once per member and written once per member, the minimum
//                   memory traffic of any algorithm; in place is safe because slices are disjoint.
//   reduce-scatter  Each member reduces its own part over all members' inputs.
//   For rows with logarithms of their weights, each member combines whole rows in these two.
//   all-gather, all-to-all, broadcast: each member copies what it needs out of its peers' inputs. In an all-to-all with
//                   counts all members read all counts first, so that invalid counts stop all of them.
//   send and receive: the receiver copies out of the sender's operand; the two treat it as a collective between them.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/stream.h"
#include "runtime/liveness/control_block.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace dtc {

/// What a rank gets when it joins.
struct SharedArenas {
  ControlBlock control;
  std::vector<std::byte *> bases;  ///< where offset 0 of each rank's arena is for this process
  std::shared_ptr<void> resources; ///< kept until the end: mappings, descriptors
  /// Where each rank puts data from other hosts for the ranks of its host, StageBytes per channel. Empty in a job on
  /// one host. The memory is not allocated yet.
  std::vector<std::byte *> stages{};
  static constexpr uint64_t StageBytes = uint64_t(1) << 20;
  static constexpr uint64_t StagesBytes = StageBytes * abi::MaximumChannels; ///< of one rank
};

class PeerMemory final : public Communicator {
public:
  explicit PeerMemory(SharedArenas arenas);
  ~PeerMemory() override;

  int rank() const override { return control.self(); }
  int size() const override { return control.ranks(); }
  CommunicatorCapabilities capabilities() const override {
    return {.strided = true, .inPlace = true, .deterministicSums = true, .weightedRows = true, .unevenParts = true};
  }
  CommandHandle start(const Group &group, const abi::Command &command) override;
  void handOver() override;
  CommandTimes wait(const CommandHandle &handle) override;
  CommandTimes run(const Group &group, const abi::Command &command) override;
  std::vector<int64_t> exchange(int64_t value) override;
  void checkPeers() override { control.checkPeers(); }
  const ControlBlock *meetingPlace() const override { return &control; }
  void poison(std::string_view why) noexcept override;

private:
  /// A command in flight.
  struct Flight {
    enum Phase { New, Announced, Moved };

    Flight(Group group, std::vector<int> members, uint64_t step)
        : group(std::move(group)), members(std::move(members)), step(step) {}

    Group group;
    std::vector<int> members;
    std::vector<const abi::Command *> parts;
    uint64_t step; ///< in which the command was started
    Phase phase = New;
    CommandTimes times;
  };

  struct Channel {
    std::unique_ptr<Stream> stream;  ///< null: nothing has been started yet
    std::shared_ptr<Flight> unheard; ///< a command for which the stream's thread was not woken; used only by the
                                     ///< starter
    std::shared_ptr<Flight> gathering; ///< a collective whose remaining parts are still to be started; used only by the
                                       ///< starter
    uint64_t lastTicket = 0;           ///< the stream's tickets, which count from 1
    uint64_t started = 0, waited = 0;
    bool isIdle() const { return started == waited; }
  };

  bool hasUnheard() const;
  void handOver(bool postponed);
  void carryOut(Flight &flight);
  void announce(Flight &flight);
  void move(Flight &flight);
  void moveUnheard();
  void collective(const Group &group, const abi::Collective &collective, size_t part);
  void transfer(const Flight &flight, const abi::Transfer &transfer);
  void checkSignatures(const Flight &flight);
  void allReduce(const Group &group, const abi::Collective &collective, size_t part);
  void reduceScatter(const Group &group, const abi::Collective &collective, size_t part);
  void allGather(const Group &group, const abi::Collective &collective, size_t part);
  void allToAll(const Group &group, const abi::Collective &collective, size_t part);
  void broadcast(const Group &group, const abi::Collective &collective, size_t part);
  void mergeRows(const Group &group, const abi::Collective &collective, size_t part);
  std::vector<int32_t> countsOf(const Group &group, const abi::Collective &collective, size_t part);

  const Ticket::Operands &operands(const Group &group, int rank, size_t part) {
    return control.ticket(group.channel, rank).parts[part];
  }
  std::byte *input(const Group &group, int rank, size_t part) {
    return bases[rank] + operands(group, rank, part).input;
  }
  std::byte *output(const Group &group, int rank, size_t part) {
    return bases[rank] + operands(group, rank, part).output;
  }
  std::byte *besideInput(const Group &group, int rank, size_t part) {
    return bases[rank] + operands(group, rank, part).besideInput;
  }
  std::byte *besideOutput(const Group &group, int rank, size_t part) {
    return bases[rank] + operands(group, rank, part).besideOutput;
  }

  std::shared_ptr<void> resources;
  ControlBlock control;
  std::vector<std::byte *> bases;
  std::vector<int> everybody;
  std::atomic<std::thread::id> starter;               ///< the thread that starts and waits
  std::array<Channel, abi::MaximumChannels> channels; // last member: their threads end before what they use is
                                                      // destroyed
};

} // namespace dtc
