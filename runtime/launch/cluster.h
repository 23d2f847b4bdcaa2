// Runs a job on one host or several, and restarts it when a rank is lost, for `dtc run`.
//
// On several hosts each has a launcher. The first one (node 0) has the server where all ranks meet, and is in control:
// it tells the others when to start and end their ranks, and they report how the ranks ended (job/nodes.h). If the
// first launcher is gone, the others kill their ranks. If another one is gone, it is back for the next start.
#pragma once

#include "runtime/job/server.h"
#include "runtime/launch/supervisor.h"
#include "runtime/liveness/heart.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// A host on which the first launcher starts another launcher.
struct RemoteHost {
  std::string name;
  int ranks = 1;
};

struct ClusterOptions {
  SupervisorOptions local; ///< the ranks of this host; its part and generation are filled in
  int world = 1;           ///< the ranks that the program was compiled for
  int maxRestarts = 0;

  // With several hosts:
  job::NodePlace node;
  job::Endpoint server; ///< where node 0 listens
  std::string token;    ///< as text, for the environment of the ranks
  job::Patience patience;
  DescribePlace describe;
  std::vector<RemoteHost> hosts;        ///< of nodes 1, 2, ..., if they are started from here
  std::vector<std::string> remoteShell; ///< the command that runs a command line on the host that follows it: "ssh"
  /// The command line of a node's launcher, which reads the token from its input.
  std::function<std::string(int node, int ranks)> remoteCommand;
};

/// Runs the job to its end and reports failures on stderr. Returns the exit code: like superviseRanks, for the first
/// failure on any host; NoProgress (6) if two consecutive starts have written no newer checkpoint than the start
/// before. Throws Error if nothing could be started.
int runCluster(const ClusterOptions &options);

} // namespace dtc
