// Connects a rank of a program with the others: alone, through one host's memory, over several hosts, or between GPUs.
#pragma once

#include "runtime/comm/local/in_process.h"
#include "runtime/comm/local/shared_memory.h"
#include "runtime/device/arena.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/job/server.h"
#include "runtime/launch/rank.h"
#include "runtime/meeting/membership.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace dtc {

class NcclCommunicator;

class Connection {
public:
  struct Options {
    std::string program; ///< its hash
    job::Patience patience;
    bool shareGpu = false;
    bool verifyTransfers = false; ///< also hash data between hosts over fast links
    /// Ends the process with this error, if a rank may be waiting for its GPU for ever.
    std::function<void(const Error &)> end;
  };

  /// Joins the job of several hosts, if this rank belongs to one. `manifest` outlives the connection. Throws like
  /// job::readToken, job::Server and job::joinJob.
  Connection(RankIdentity identity, const abi::Manifest &manifest, Options options);

  ~Connection();

  /// Joins ranks that have a GPU each, before they allocate GPU memory: NCCL allocates first.
  void join(CudaDevice &gpu);
  /// Connects the ranks' memories; `gpu`: null on a processor. Both outlive the connection.
  void connect(CudaDevice *gpu, Memory &memory);

  Communicator &ranks() { return *communicator; }

private:
  void joinJob();
  std::unique_ptr<Communicator> join(Arena &arena);
  std::unique_ptr<Communicator> joinHosts(Arena &arena);

  RankIdentity identity;
  const abi::Manifest &manifest;
  Options options;
  std::unique_ptr<job::Server> server; // rank 0's, if no launcher has one
  std::shared_ptr<Membership> membership;
  std::string meetingPlace; // of this host's ranks
  InProcessJob alone{1};
  std::optional<Arena> stage;                 // the memory that peers see, if it is not the ranks' own memory
  std::unique_ptr<Communicator> hosts;        // if ranks do not exchange data through it
  std::unique_ptr<Communicator> communicator; // last member: it uses the others
  NcclCommunicator *nccl = nullptr;           // the same object, if ranks have a GPU each
};

} // namespace dtc
