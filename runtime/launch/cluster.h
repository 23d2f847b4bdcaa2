// Starts a job on one host or several, and starts it again when a rank is lost: what `dtc run` does.
//
// On several hosts each has a launcher. The first one (node 0) has the server where all ranks meet, and decides: it
// tells the others when to start their ranks and when to end, and they tell it how these ended (job/nodes.h). When the
// first one is gone, the others kill their ranks; one of the others that is gone comes back for the next start.
#pragma once

#include "runtime/job/server.h"
#include "runtime/launch/supervisor.h"
#include "runtime/liveness/heart.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// A host on which the first launcher starts another by itself.
struct RemoteHost {
  std::string name;
  int ranks = 1;
};

struct ClusterOptions {
  SupervisorOptions local; ///< the ranks of this host; its part and generation are filled in
  int world = 1;           ///< the ranks that the program was compiled for
  int maxRestarts = 0;

  // Of several hosts:
  job::NodePlace node;
  job::Endpoint server; ///< where node 0 listens
  std::string token;    ///< as text, for the environment of the ranks
  job::Patience patience;
  DescribePlace describe;
  std::vector<RemoteHost> hosts;        ///< of nodes 1, 2, ..., where they are to be started from here
  std::vector<std::string> remoteShell; ///< what runs a command line on a host, which follows it: "ssh"
  /// The command line of a node's launcher, which reads the token from its input.
  std::function<std::string(int node, int ranks)> remoteCommand;
};

/// Runs the job to its end and says on stderr how it failed. Returns the exit code: as superviseRanks, of the failure
/// that came first on any host; NoProgress (6) where two starts in a row have not written a newer checkpoint than the
/// start before. Throws Error where nothing could be started.
int runCluster(const ClusterOptions &options);

} // namespace dtc
