// Whether a plan fits: into a limit, and into the memory of devices and nodes.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"

#include <set>

namespace dtc {

struct MemoryLack {
  double bytes = 0;       ///< the most that a rank, a device or a node lacks; 0: the plan fits
  std::set<size_t> roles; ///< for which there is too little
};

/// Counts arenas alone. `limit`: bytes of each, 0: none. A device that has no memory of its own shares its node's;
/// nothing is lacking where the cluster does not say how much there is. Without a layout only the limit counts.
MemoryLack findMemoryLack(const Plan &plan, const abi::Mesh &mesh, uint64_t limit, const timing::Layout *layout);

/// The bytes that a rank may have: the least of the limit, its device's memory and its share of its node's. 0: no
/// limit.
double roomOfRank(int64_t rank, uint64_t limit, const timing::Layout &layout);

} // namespace dtc
