#include "tools/dtc/plan/ClusterSize.h"

#include "timing/cluster/extents.h"

namespace dtc {

int64_t devicesOf(const timing::Nodes &nodes) {
  return timing::isOfProcessors(nodes) ? nodes.cores() : nodes.devices();
}

int64_t deviceCount(const timing::Cluster &cluster) {
  int64_t count = 0;
  for (const timing::Nodes &nodes : cluster.nodes())
    count += nodes.count() * devicesOf(nodes);
  return count;
}

timing::Cluster withMoreNodes(timing::Cluster cluster, int64_t devices) {
  int64_t lacking = devices - deviceCount(cluster);
  if (lacking <= 0)
    return cluster;
  timing::Nodes &last = *cluster.mutable_nodes(cluster.nodes_size() - 1);
  int64_t each = devicesOf(last);
  last.set_count(last.count() + static_cast<uint32_t>((lacking + each - 1) / each));
  if (cluster.levels_size() > 0)
    cluster.mutable_levels(cluster.levels_size() - 1)->set_units(0); // joins all that there are
  return cluster;
}

} // namespace dtc
