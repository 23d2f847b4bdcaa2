#include "timing/plans/problem.h"

#include <algorithm>

namespace dtc::plans {

/// Of a node; 0: the file does not say.
static double memoryOfNode(const timing::Cluster &cluster, int64_t node) {
  for (const timing::Nodes &nodes : cluster.nodes()) {
    if (node < nodes.count())
      return static_cast<double>(nodes.memory_bytes());
    node -= nodes.count();
  }
  return 0;
}

double roomOf(const Problem &problem) {
  abi::Mesh mesh; // of one axis: ranks are counted along the cluster
  abi::Axis &axis = *mesh.add_axes();
  axis.set_name("dp");
  axis.set_size(problem.devices);
  timing::Layout layout(problem.cluster, mesh);
  double room = static_cast<double>(problem.memoryLimit);
  for (int64_t rank = 0; rank < layout.ranks(); rank += layout.ranksOnNodeOf(rank)) { // a node's devices are alike
    double has = static_cast<double>(layout.deviceOf(rank).memory_bytes());
    if (has == 0)
      has = memoryOfNode(problem.cluster, layout.nodeOf(rank)) / static_cast<double>(layout.ranksOnNodeOf(rank));
    has *= 1 - problem.margin;
    if (has > 0)
      room = room > 0 ? std::min(room, has) : has;
  }
  return room;
}

} // namespace dtc::plans
