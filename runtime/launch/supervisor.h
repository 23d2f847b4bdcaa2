// Starts and supervises the ranks of a job on this machine, for `dtc run`.
#pragma once

#include "runtime/liveness/heart.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// This host's part of a job on several hosts.
struct JobPart {
  int firstRank = 0;  ///< the job's number of this host's first rank
  int world = 0;      ///< ranks of the job
  std::string server; ///< "host:port" where they meet; empty: they are all on this host
};

struct SupervisorOptions {
  std::vector<std::string> command; ///< program and its arguments
  int ranks = 1;                    ///< to start here
  /// Ranks that have not ended this long after the first one failed are killed.
  std::chrono::milliseconds grace{10000};
  /// Ranks that have not ended this long after a signal was forwarded to them are killed. Within it they write a
  /// checkpoint.
  std::chrono::milliseconds stopGrace{120000};
  JobPart part{};
  uint32_t generation = 0;  ///< how often the job was started before
  DescribePlace describe{}; ///< for the flight record; empty: none is written
  /// What a rank of the job does, behind the message about the first one that failed: "it had stage 2 of the pipeline".
  /// Empty: nothing is said.
  std::function<std::string(int rank)> describeRank{};
  std::string logFolder{};  ///< for a file with the output of each rank but the first; empty: they print to our output
  /// Called several times a second: a signal for the ranks, from another launcher; 0: none.
  std::function<int()> awaitedSignal = [] { return 0; };
  /// Called as often: whether a rank of the job has failed on any host. Those that do not end by themselves are killed.
  std::function<bool()> hasFailed = [] { return false; };
  std::function<void(int signal)> onSignal = [](int) {};
  /// Called at once for the first rank here that fails by itself.
  std::function<void(const FailureNotice &)> onFailure = [](const FailureNotice &) {};
};

/// How ranks ended.
struct SupervisorResult {
  int exitCode = 0;
  std::string words;       ///< for people; may be empty
  bool isLoss = false;     ///< a rank was lost; false if it found an error or was asked to stop
  std::string record;      ///< path of the flight record; empty: none was written
  uint64_t checkpoint = 0; ///< steps done at the last checkpoint written
};

/// Runs `ranks` processes of the command and waits for all. Each finds its place in DTC_RANK, DTC_WORLD,
/// DTC_LOCAL_RANK, DTC_LOCAL_WORLD, DTC_RENDEZVOUS, DTC_GENERATION, and of several hosts DTC_SERVER. Each is in its own
/// process group, so that Ctrl-C reaches it once, through this process: SIGINT, SIGTERM and SIGHUP are forwarded,
/// unless they were ignored at the start (nohup). The ranks end when this process does.
///
/// When a rank fails, its peers learn of it at once, whether or not they have joined. Reports the first failure and its
/// reason on stderr, gives the others `grace` to end by themselves and kills the rest. The first failure is the one
/// recorded in the ranks' control block. Ranks that end with PeerLost, or without a message because another rank has
/// it, are consequences: they are named only if there is no other failure. The exit code: 0, the first failure's own,
/// 128 + n when ranks had to be killed after the forwarded signal n, or PeerLost (4) when the first was ended by a
/// signal that was not forwarded. Throws Error (BadInput) when the command cannot be started.
SupervisorResult superviseRanks(const SupervisorOptions &options);

/// A message about a rank of the job (-1: a launcher), with what it does.
std::string withDuty(const SupervisorOptions &options, int rank, const std::string &words);

} // namespace dtc
