#include "passes/pipelines/search/MemoryLack.h"

#include "passes/pipelines/search/PlannedStep.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace dtc {

/// 0: the file does not say.
static double nodeMemory(const timing::Layout &layout, int64_t node) {
  for (const timing::Nodes &nodes : layout.cluster().nodes()) {
    if (node < nodes.count())
      return static_cast<double>(nodes.memory_bytes());
    node -= nodes.count();
  }
  return 0;
}

MemoryLack findMemoryLack(const Plan &plan, const abi::Mesh &mesh, uint64_t limit, const timing::Layout *layout) {
  MemoryLack lack;
  auto need = [&](double bytes, double has, const std::set<size_t> &roles) {
    if (has == 0 || bytes <= has)
      return;
    lack.bytes = std::max(lack.bytes, bytes - has);
    lack.roles.insert(roles.begin(), roles.end());
  };
  struct Node {
    double bytes = 0;
    std::set<size_t> roles;
  };
  std::map<int64_t, Node> nodes;
  for (auto [index, number] : llvm::enumerate(rolesOfRanks(mesh, plan.roles.size()))) {
    auto rank = static_cast<int64_t>(index);
    auto role = static_cast<size_t>(number);
    auto bytes = static_cast<double>(plan.roles[role].arena.bytes);
    need(bytes, static_cast<double>(limit), {role});
    if (!layout)
      continue;
    auto ofDevice = static_cast<double>(layout->deviceOf(rank).memory_bytes());
    need(bytes, ofDevice, {role});
    if (ofDevice > 0)
      continue;
    Node &node = nodes[layout->nodeOf(rank)];
    node.bytes += bytes;
    node.roles.insert(role);
  }
  for (const auto &[number, node] : nodes)
    need(node.bytes, nodeMemory(*layout, number), node.roles);
  return lack;
}

double roomOfRank(int64_t rank, uint64_t limit, const timing::Layout &layout) {
  auto room = static_cast<double>(limit), has = static_cast<double>(layout.deviceOf(rank).memory_bytes());
  if (has == 0)
    has = nodeMemory(layout, layout.nodeOf(rank)) / static_cast<double>(layout.ranksOnNodeOf(rank));
  return room > 0 && has > 0 ? std::min(room, has) : std::max(room, has);
}

} // namespace dtc
