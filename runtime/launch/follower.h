// The launcher of any but the first host of a job, which does what the first one says.
#pragma once

#include "runtime/launch/cluster.h"

namespace dtc {

/// Runs this host's ranks as often as the first launcher (node 0) says so. Returns the exit code that it says at the
/// end.
/// A connection that breaks is made again: within job::RejoinTime the ranks go on, later they are ended, and where the
/// first launcher has not been reached after patience.start it counts as gone.
/// Throws Error (PeerLost) when it is, and Error (BadInput) when the job does not take this node.
int followFirstNode(const ClusterOptions &options);

} // namespace dtc
