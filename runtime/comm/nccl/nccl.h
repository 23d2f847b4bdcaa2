// Ranks that have a GPU each, and exchange through NVIDIA's library.
//
// Each group has a communicator of NCCL's and a stream of the GPU. A command's stream waits for all that the device was
// given before its start, and the device waits for the command's end where the list does: by events, so the host waits
// for neither, and may be far ahead. NCCL asks all ranks to start everything in one order, and so does Communicator.
//
// Collectives run one after the other: two that are under way may each hold on one GPU the place that the other needs
// on the next. The sends and receives of a pipeline cannot: a receive waits for what is given later. Those of a group
// follow each other, and run beside everything else; so that all that may wait finds its place, their groups take few
// blocks.
//
// Groups' communicators block: a call returns when its work is given to the stream. The others hand each call to a
// thread that NCCL starts, and must not be asked for errors by another thread meanwhile. Only joining does not block,
// so that a rank that never comes is noticed.
//
// Parts that do not lie in one piece are one call for each piece, in one group of NCCL's.
//
// A watch looks several times a second for ranks that have ended, for errors that NCCL found meanwhile, and for
// commands that take longer than any should. It alone notices: who waits for a GPU hears nothing.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/library.h"
#include "runtime/device/cuda/cuda_device.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dtc {

class NcclCommunicator final : public Communicator {
public:
  struct Options {
    /// Called once, by the watch's thread: a rank is lost, or NCCL failed. Cannot go on: it ends the process.
    std::function<void(const Error &)> onFailure;
    std::chrono::milliseconds timeout{std::chrono::minutes(10)}; ///< of one command
  };

  /// For a rank of a program; `host` joins the ranks' hosts. All outlive it. Returns when all ranks are
  /// there. `device` has no memory yet: NCCL takes its own first, and then gives the device what peers are to see.
  /// Throws Error (Runtime) as nccl::Library, and with NCCL's words.
  NcclCommunicator(Communicator &host, CudaDevice &device, const abi::Manifest &manifest, Options options);
  ~NcclCommunicator() override;

  /// What commands read and write, before the first of them. It outlives the communicator.
  void show(Memory &memory);

  int rank() const override { return host.rank(); }
  int size() const override { return host.size(); }
  CommunicatorCapabilities capabilities() const override {
    return {.strided = true, .inPlace = true, .deviceMemory = true, .deviceOrder = true, .sumOrder = SumOrder::Library};
  }
  CommandHandle start(const Group &group, const abi::Command &command) override;
  CommandTimes wait(const CommandHandle &handle) override;
  void askForTimes(bool ask) override { tellsTimes = ask; }
  std::vector<int64_t> exchange(int64_t value) override { return host.exchange(value); }
  void checkPeers() override { host.checkPeers(); }
  const ControlBlock *meetingPlace() const override { return host.meetingPlace(); }
  void poison(std::string_view why) noexcept override;

private:
  /// Of what will be given to NCCL at once.
  struct Part {
    const abi::Command *command;
    uint64_t ticket;
    std::shared_ptr<CommandTimes> times; ///< its own: the observer turns numbers of moments into times
  };
  /// A group, as NCCL has it.
  struct Member {
    Group group;
    nccl::Comm comm = nullptr; ///< null in a group of one
    cuda::StreamHandle stream = nullptr;
    void *shown = nullptr; ///< memory, as NCCL calls it; null where it knows of none
    std::vector<Part> gathering{}; ///< of a collective of which more parts will be started
  };
  /// A command between its start and its end on the GPU.
  struct Flight {
    const abi::Command *command;
    uint64_t ticket;
    cuda::EventHandle end;
    std::chrono::steady_clock::time_point started;
    std::shared_ptr<CommandTimes> times;
    bool isWaitedFor = false; ///< its event may be used again once it is over
  };

  nccl::UniqueId agreeOnId();
  void makeMembers();
  Member &memberOf(const Group &group);
  void settle(int result, nccl::Comm comm, const char *what);
  void give(Member &member);
  void giveAlone(const abi::Command &command);
  void giveCollective(Member &member, const abi::Collective &collective);
  void giveAllToAll(Member &member, const abi::Collective &collective);
  void giveTransfer(Member &member, const abi::Transfer &transfer, bool sends);
  cuda::EventHandle takeEvent();
  void watch(const std::stop_token &stop);
  void look();
  std::string describeOldest();
  void release() noexcept;

  nccl::Library library;
  Communicator &host;
  CudaDevice &device;
  const abi::Manifest &manifest;
  Memory *memory = nullptr;
  Options options;
  nccl::Comm world = nullptr;
  std::vector<Member> members;
  cuda::EventHandle ready = nullptr;    ///< of the device, when a command starts
  cuda::EventHandle previous = nullptr; ///< the end of the last command that NCCL was given in order

  std::mutex mutex; // of what follows: the watch reads it
  std::deque<Flight> flights;
  std::vector<cuda::EventHandle> spare;
  uint64_t tickets = 0;
  bool tellsTimes = false;

  std::atomic<bool> isPoisoned = false;
  std::jthread watcher; // last: it ends before what it watches
};

} // namespace dtc
