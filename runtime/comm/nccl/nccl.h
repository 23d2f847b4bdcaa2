// Ranks that have a GPU each and communicate through NVIDIA's library NCCL.
//
// Each group has an NCCL communicator and a GPU stream. A command's stream waits for all work queued on the device
// before its start, and the device waits for the command's end where the list does. Both use events, so the host waits
// for neither and may run far ahead. NCCL requires all ranks to start everything in the same order, and so does
// Communicator.
//
// Collectives run one after the other: two concurrent ones may each hold the blocks on one GPU that the other needs on
// the next. A pipeline's sends and receives cannot be serialized like this, because a receive waits for work that is
// queued later. Those of one group run in order, concurrently with everything else. Their groups take few blocks, so
// that everything that may wait fits on the GPU.
//
// Groups' communicators are blocking: a call returns once its work is enqueued on the stream. Nonblocking ones hand
// each call to a thread that NCCL starts, and another thread must not query errors in the meantime. Only joining is
// nonblocking, so that a rank that never arrives is noticed.
//
// Parts that are not contiguous take one call per piece, in one NCCL group.
//
// A watchdog checks several times a second for ranks that have ended, for errors inside NCCL, and for commands that
// exceed the timeout. Only it can notice them: a thread that waits for a GPU cannot.
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
    /// Called once by the watchdog's thread when a rank is lost or NCCL failed. The rank cannot continue: the callback
    /// ends the process.
    std::function<void(const Error &)> onFailure;
    std::chrono::milliseconds timeout{std::chrono::minutes(10)}; ///< of one command
  };

  /// For a rank of a program; `host` connects the ranks' hosts. All arguments outlive it. Returns when all ranks have
  /// joined. `device` has no memory yet: NCCL allocates its own first, and then the memory for the device that peers
  /// will see. Throws Error (Runtime) like nccl::Library, and with NCCL's messages.
  NcclCommunicator(Communicator &host, CudaDevice &device, const abi::Manifest &manifest, Options options);
  ~NcclCommunicator() override;

  /// Registers the memory that commands read and write. Call it before the first command. The memory outlives the
  /// communicator.
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
  /// One part of what is passed to NCCL together.
  struct Part {
    const abi::Command *command;
    uint64_t ticket;
    std::shared_ptr<CommandTimes> times; ///< its own: the observer converts mark numbers into times
  };
  /// A group in NCCL's terms.
  struct Member {
    Group group;
    nccl::Comm comm = nullptr; ///< null in a group of one
    cuda::StreamHandle stream = nullptr;
    void *shown = nullptr; ///< NCCL's handle of the registered memory; null if there is none
    std::vector<Part> gathering{}; ///< parts of a collective whose remaining parts are still to be started
  };
  /// A command between its start and its end on the GPU.
  struct Flight {
    const abi::Command *command;
    uint64_t ticket;
    cuda::EventHandle end;
    std::chrono::steady_clock::time_point started;
    std::shared_ptr<CommandTimes> times;
    bool isWaitedFor = false; ///< its event may be reused once it is over
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
  cuda::EventHandle ready = nullptr;    ///< the device's progress when a command starts
  cuda::EventHandle previous = nullptr; ///< the end of the last command enqueued in order

  std::mutex mutex; // protects the following members, which the watchdog reads
  std::deque<Flight> flights;
  std::vector<cuda::EventHandle> spare;
  uint64_t tickets = 0;
  bool tellsTimes = false;

  std::atomic<bool> isPoisoned = false;
  std::jthread watcher; // last member: it ends before what it watches is destroyed
};

} // namespace dtc
