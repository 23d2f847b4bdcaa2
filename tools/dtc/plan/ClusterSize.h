// How many devices a cluster has, and the same cluster with more.
#pragma once

#include "timing/cluster/cluster.h"

#include <cstdint>

namespace dtc {

/// Of one of these nodes: its devices, or a processor's cores.
int64_t devicesOf(const timing::Nodes &nodes);

/// All devices of a cluster: those of GPUs' nodes, and the cores of processors', which ranks may outnumber.
int64_t deviceCount(const timing::Cluster &cluster);

/// The same cluster with more nodes like its last ones, so that it has at least `devices`. Only its memory means
/// something then: links between nodes that it lacks are made up.
timing::Cluster withMoreNodes(timing::Cluster cluster, int64_t devices);

} // namespace dtc
