// How far the levels of a cluster reach.
#pragma once

#include "timing/cluster/cluster.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::timing {

/// What one unit of a level joins: some devices of one node, or whole nodes.
struct Extent {
  int64_t devices = 0; ///< of one node; 0: whole nodes
  int64_t nodes = 0;   ///< 0: less than one

  bool isWithinNode() const { return nodes <= 1; }
};

bool isOfProcessors(const Nodes &nodes);
int64_t nodeCount(const Cluster &cluster);

/// The extents of all levels, inner ones first; or, in `fault`, why there are none. Requires valid nodes: at least one,
/// each with a count, and with devices or cores.
std::vector<Extent> extentsOf(const Cluster &cluster, std::string &fault);

} // namespace dtc::timing
