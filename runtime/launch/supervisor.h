// Starts the ranks of a job on this machine and looks after them: what `dtc run` does.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace dtc {

struct SupervisorOptions {
  std::vector<std::string> command; ///< program and its arguments
  int ranks = 1;
  /// Ranks that have not ended this long after the first one failed are killed.
  std::chrono::milliseconds grace{10000};
  /// Ranks that have not ended this long after a signal was forwarded to them are killed. Within it they write a
  /// checkpoint.
  std::chrono::milliseconds stopGrace{120000};
};

/// Runs `ranks` processes of the command and waits for all. Each finds its place in DTC_RANK, DTC_WORLD and
/// DTC_RENDEZVOUS. They are in process groups of their own, so that a Ctrl-C reaches them once, through us: SIGINT,
/// SIGTERM and SIGHUP are forwarded, but not one that was ignored when we were started (nohup). They end when we do.
///
/// When a rank fails, its peers are told at once, whether or not they have met. Says on stderr which was the first and
/// why, gives the others `grace` to end by themselves and kills what is left. The first is the one that the ranks'
/// control block names: whoever failed wrote there, in order of time. Ranks that end with PeerLost, and those that gave
/// up without words because another one has them, are consequences: they are named only when there is no other.
/// Returns the exit code: 0, the first failure's own, 128 + n when ranks had to be killed after the forwarded signal n,
/// or PeerLost (4) when the first was ended by a signal that we did not forward. Throws Error (BadInput) when the
/// command cannot be started.
int superviseRanks(const SupervisorOptions &options);

} // namespace dtc
