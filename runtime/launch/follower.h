// The launcher on every host of a job except the first. It obeys the first one.
#pragma once

#include "runtime/launch/cluster.h"

namespace dtc {

/// Runs this host's ranks as often as the first launcher (node 0) orders. Returns the exit code that node 0 sends at
/// the end. It reconnects a broken connection. Within job::RejoinTime the ranks keep running; after that they are
/// ended. If the first launcher cannot be reached within patience.start, it counts as gone. Throws Error (PeerLost)
/// when it is gone, and Error (BadInput) when the job rejects this node.
int followFirstNode(const ClusterOptions &options);

} // namespace dtc
