// Starts the ranks of a job on this machine and looks after them: what `dtc run` does.
#pragma once

#include "runtime/liveness/heart.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// What this host has of a job on several hosts.
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
  DescribePlace describe{}; ///< for the flight record; none: none is written
  std::string logFolder{};  ///< for a file of what each rank but the first prints; empty: it prints where we do
  /// Asked several times a second: a signal for the ranks, from another launcher; 0: none.
  std::function<int()> awaitedSignal = [] { return 0; };
  /// Asked as often: whether a rank of the job has failed, anywhere. Those that do not end by themselves are killed.
  std::function<bool()> hasFailed = [] { return false; };
  std::function<void(int signal)> onSignal = [](int) {};
  /// Told at once of the first rank here that fails by itself.
  std::function<void(const FailureNotice &)> onFailure = [](const FailureNotice &) {};
};

/// How ranks ended.
struct SupervisorResult {
  int exitCode = 0;
  std::string words;       ///< for people; empty where there is nothing to say
  bool isLoss = false;     ///< a rank was lost, rather than that it found a mistake or was asked to stop
  std::string record;      ///< path of the flight record; empty: none was written
  uint64_t checkpoint = 0; ///< steps done at the last one that was written
};

/// Runs `ranks` processes of the command and waits for all. Each finds its place in DTC_RANK, DTC_WORLD,
/// DTC_LOCAL_RANK, DTC_LOCAL_WORLD, DTC_RENDEZVOUS, DTC_GENERATION, and of several hosts DTC_SERVER. They are in
/// process groups of their own, so that a Ctrl-C reaches them once, through us: SIGINT, SIGTERM and SIGHUP are
/// forwarded, but not one that was ignored when we were started (nohup). They end when we do.
///
/// When a rank fails, its peers are told at once, whether or not they have met. Says on stderr which was the first and
/// why, gives the others `grace` to end by themselves and kills what is left. The first is the one that the ranks'
/// control block names: whoever failed wrote there, in order of time. Ranks that end with PeerLost, and those that gave
/// up without words because another one has them, are consequences: they are named only when there is no other.
/// The exit code: 0, the first failure's own, 128 + n when ranks had to be killed after the forwarded signal n,
/// or PeerLost (4) when the first was ended by a signal that we did not forward. Throws Error (BadInput) when the
/// command cannot be started.
SupervisorResult superviseRanks(const SupervisorOptions &options);

} // namespace dtc
