// Launchers that the first one starts on other hosts through a remote shell, and restarts when they are lost.
#pragma once

#include "runtime/launch/cluster.h"
#include "runtime/support/not_copied.h"

#include <optional>
#include <sys/types.h>
#include <vector>

namespace dtc {

/// Child processes, each a remote shell. They end with this process, and with their launchers' connections.
class RemoteLaunchers : NotCopied {
public:
  /// Starts one for each of options.hosts, the nodes 1, 2, ...
  explicit RemoteLaunchers(const ClusterOptions &options);
  /// Called after their launchers have been told to end.
  ~RemoteLaunchers();

  /// Throws Error naming a host of these nodes whose remote shell has ended already: BadInput if it ended with that
  /// code, else Runtime.
  void requireRunning(const std::vector<int> &absent);
  /// Restarts those of these nodes whose remote shell has ended or that have been absent for a long time.
  void startAgain(const std::vector<int> &absent);

private:
  struct Child {
    pid_t process = 0; ///< 0: it has ended, with `status`
    int status = 0;
    job::Clock::time_point begun;
    std::optional<job::Clock::time_point> missed; ///< since when its node has been missing
  };

  void start(int node);
  void reap(Child &child);

  const ClusterOptions &options;
  std::vector<Child> children; // of nodes 1, 2, ...
};

} // namespace dtc
