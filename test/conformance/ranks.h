// Runs one function as all ranks of a job: as threads of this process, or as separate processes.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/comm/hosts/hosts.h"
#include "runtime/device/arena.h"
#include "runtime/job/server.h"
#include "test/conformance/fake_membership.h"

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dtc::test {

/// The ways in which ranks find each other. The conformance suite runs over every one of them. Staged: threads on
/// devices whose memory the ranks do not share. Gpus: processes, for gpu_rank.h. Hosts: threads that play a host each.
/// TwoHosts: threads that play two hosts. JobProcesses: processes that play two hosts of a real job.
enum class Bootstrap { Threads, Processes, NamedProcesses, Staged, Gpus, Hosts, TwoHosts, JobProcesses };
std::ostream &operator<<(std::ostream &stream, Bootstrap bootstrap);

struct JobShape {
  int ranks;
  uint64_t arenaBytes = 8 << 20;
  uint64_t sharedBegin = 4096;
};

using RankBody = std::function<void(Communicator &, Arena &)>;

/// Runs `body` as every rank; returns what each threw: "" for nothing, otherwise "exit code E: message". For a rank
/// that a signal ends it is "signal S".
std::vector<std::string> runRanks(Bootstrap bootstrap, const JobShape &shape, const RankBody &body);

/// Runs `body` as threads that play the ranks of several hosts: `job` states them.
std::vector<std::string> runHosts(const FakeJob &job, const std::vector<int> &hosts, const JobShape &shape,
                                  const HostsOptions &options, const RankBody &body);

/// A command's collective, of the kind and elements that a test case names.
template <typename Case> abi::Collective &startOf(abi::Command &command, const Case &test) {
  abi::Collective &message = *command.mutable_start();
  message.set_kind(test.kind);
  message.set_reduction(test.reduction);
  message.set_type(test.type);
  return message;
}

/// Makes a rank's communicator, with `arena` for its memory.
using Join = std::function<std::unique_ptr<Communicator>(int rank, Arena &arena)>;

/// A running job of processes.
class ProcessJob {
public:
  ProcessJob(const JobShape &shape, const RankBody &body, const Join &join);
  /// On one host; the ranks meet at `path`.
  ProcessJob(const JobShape &shape, const RankBody &body, const std::string &path, int milliseconds = 60000);
  ~ProcessJob();
  void kill(int rank) const;
  /// Waits for all ranks; returns the same as runRanks.
  std::vector<std::string> join();

private:
  std::vector<pid_t> children;
  std::vector<int> pipes;
};

/// A job of processes on several hosts, all of which are this machine.
class HostsJob {
public:
  HostsJob(const std::vector<int> &hosts, const JobShape &shape, const RankBody &body);
  ~HostsJob();
  ProcessJob &processes() { return *ranks; }

private:
  std::unique_ptr<job::Server> server;
  std::unique_ptr<ProcessJob> ranks;
};

/// A path that nobody else uses, in a directory under /dev/shm.
std::string freshName();

/// Flags that all ranks share with any bootstrap, zero at first: for tests that need to order ranks without the
/// communicator. Valid until the process ends.
std::atomic<int> *sharedFlags();

} // namespace dtc::test
