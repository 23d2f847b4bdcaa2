// How a rank of a program comes to exchange data with the others: alone, through memory of one host, over several
// hosts, or between GPUs.
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
    bool verifyTransfers = false; ///< hash what crosses between hosts over fast links too
    /// Ends the process with these words, where a rank may wait for its GPU for ever.
    std::function<void(const Error &)> end;
  };

  /// Joins the job of several hosts, if this rank belongs to one. `manifest` outlives the connection. Throws as
  /// job::readToken, job::Server and job::joinJob.
  Connection(RankIdentity identity, const abi::Manifest &manifest, Options options);

  ~Connection();

  /// Joins ranks that are to have a GPU each, before they take memory of it: what NCCL needs comes first.
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
  std::unique_ptr<job::Server> server; // rank 0's, where no launcher has one
  std::shared_ptr<Membership> membership;
  std::string meetingPlace; // of this host's ranks
  InProcessJob alone{1};
  std::optional<Arena> stage;                 // what hosts show each other where it is not the ranks' memory
  std::unique_ptr<Communicator> hosts;        // where ranks do not exchange through it
  std::unique_ptr<Communicator> communicator; // last: it stands on the others
  NcclCommunicator *nccl = nullptr;           // which that is, where ranks have a GPU each
};

} // namespace dtc
