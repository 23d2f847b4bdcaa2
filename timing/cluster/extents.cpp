#include "timing/cluster/extents.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::timing {

bool isOfProcessors(const Nodes &nodes) { return nodes.cores() > 0; }

int64_t nodeCount(const Cluster &cluster) {
  int64_t count = 0;
  for (const Nodes &nodes : cluster.nodes())
    count += nodes.count();
  return count;
}

/// The number of devices of every node, or 0 where nodes differ or their devices are the mesh's ranks.
static int64_t evenDevices(const Cluster &cluster) {
  int64_t each = cluster.nodes(0).devices();
  bool isEven = std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                            [&](const Nodes &nodes) { return nodes.devices() == each; });
  return isEven ? each : 0;
}

static bool divides(int64_t units, const Cluster &cluster) {
  return std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                     [&](const Nodes &nodes) { return nodes.devices() % units == 0; });
}

/// The next level of `units` units, from one that joins less than a node.
static Extent widenWithinNode(const Cluster &cluster, int64_t devices, std::string_view where, std::string &fault) {
  if (isOfProcessors(cluster.nodes(0))) {
    fault = fmt::format("{} is {}: the devices of a node of processors are its ranks, as many as a mesh puts there; "
                        "write 0, which joins them all",
                        where, devices);
    return {};
  }
  int64_t each = evenDevices(cluster);
  if (each > 0 && devices % each == 0)
    return {0, devices / each};
  if (divides(devices, cluster))
    return {devices, 0};
  fault = each > 0 ? fmt::format("{} makes it join {} devices, and a node has {}: neither is a multiple of the other; "
                                 "write units that multiply to {}, or 0 for a whole node",
                                 where, devices, each, each)
                   : fmt::format("{} makes it join {} devices, and not all nodes have a multiple of that; write 0, "
                                 "which joins all of a node",
                                 where, devices);
  return {};
}

std::vector<Extent> extentsOf(const Cluster &cluster, std::string &fault) {
  int64_t allNodes = nodeCount(cluster);
  Extent reach = evenDevices(cluster) == 1 ? Extent{0, 1} : Extent{1, 0};
  std::vector<Extent> extents;
  for (int i = 0; i < cluster.levels_size() && fault.empty(); ++i) {
    int64_t units = cluster.levels(i).units();
    std::string where = fmt::format("levels[{}].units", i);
    if (units > 0)
      reach = reach.nodes > 0 ? Extent{0, reach.nodes * units}
                              : widenWithinNode(cluster, reach.devices * units, where, fault);
    else if (i + 1 < cluster.levels_size() && reach.nodes > 0)
      fault = fmt::format("{} is 0, all that there are: nothing is left for levels[{}] to join; give a number, or "
                          "remove the levels behind it",
                          where, i + 1);
    else
      reach = {0, i + 1 < cluster.levels_size() ? 1 : allNodes};
    if (fault.empty() && (reach.nodes > allNodes || (reach.nodes > 0 && allNodes % reach.nodes != 0)))
      fault = fmt::format("{} is {}, which makes it join {} nodes, and the cluster has {}: units must multiply to "
                          "them; write 0 for all that there are",
                          where, units, reach.nodes, allNodes);
    extents.push_back(reach);
  }
  if (!fault.empty() || reach.nodes == allNodes)
    return extents;
  std::string joined = reach.nodes > 0
                           ? fmt::format("{} nodes", reach.nodes)
                           : fmt::format("{} device{} of a node", reach.devices, reach.devices == 1 ? "" : "s");
  fault = fmt::format("levels: together they join {}, and the cluster has {} node{}; add a level with units: 0, which "
                      "joins all that there are",
                      joined, allNodes, allNodes == 1 ? "" : "s");
  return extents;
}

} // namespace dtc::timing
