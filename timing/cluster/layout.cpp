#include "timing/cluster/cluster.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace dtc::timing {

/// No real mesh has more; below it products of sizes cannot overflow.
static constexpr int64_t MostRanks = int64_t(1) << 40;

static std::string textOf(const abi::Mesh &mesh) {
  std::string text;
  for (const abi::Axis &axis : mesh.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name(), axis.size());
  return text;
}

/// The axis that has to shrink least so that the ranks fit, and to what: "dp=4".
static std::string shrunk(const abi::Mesh &mesh, int64_t ranks, int64_t devices) {
  std::string best;
  int64_t mostRanks = 0;
  for (const abi::Axis &axis : mesh.axes()) {
    int64_t others = ranks / axis.size(), size = devices / others;
    while (size > 1 && axis.size() % size != 0) // what divided the model before still divides it
      --size;
    if (size >= 1 && size * others > mostRanks) {
      mostRanks = size * others;
      best = fmt::format("{}={}", axis.name(), size);
    }
  }
  return best;
}

static void throwTooManyRanks(const Cluster &cluster, const abi::Mesh &mesh, int64_t ranks, int64_t devices) {
  const Nodes &last = *cluster.nodes().rbegin();
  int64_t missing = (ranks - devices + last.devices() - 1) / last.devices();
  std::string smaller = shrunk(mesh, ranks, devices);
  throw Error(ExitCode::BadInput,
              fmt::format("the mesh {} has {} ranks, and the cluster '{}' has {} devices: {}say "
                          "nodes[{}].count: {} in the cluster file",
                          textOf(mesh), ranks, cluster.name(), devices,
                          smaller.empty() ? "" : fmt::format("make the mesh smaller ({} fits), or ", smaller),
                          cluster.nodes_size() - 1, last.count() + missing));
}

int Span::outermost() const {
  auto last = std::find_if(units.rbegin(), units.rend(), [](int64_t count) { return count > 1; });
  return static_cast<int>(units.rend() - last) - 1;
}

Layout::Layout(const Cluster &cluster, const abi::Mesh &mesh) : onCluster(cluster) {
  std::string fault;
  extents = extentsOf(cluster, fault);
  if (!fault.empty())
    throw Error(ExitCode::BadInput, fault);
  layAxes(mesh);
  int64_t devices = 0;
  for (const Nodes &nodes : cluster.nodes())
    devices += int64_t(nodes.count()) * nodes.devices();
  if (devices > 0 && rankCount > devices)
    throwTooManyRanks(cluster, mesh, rankCount, devices);
  fillNodes();
  shareLinks();
}

/// Axes named first are innermost.
void Layout::layAxes(const abi::Mesh &mesh) {
  std::vector<int> order;
  for (const std::string &name : onCluster.axis_order())
    for (int axis = 0; axis < mesh.axes_size(); ++axis)
      if (mesh.axes(axis).name() == name)
        order.push_back(axis);
  for (int axis = mesh.axes_size() - 1; axis >= 0; --axis)
    if (std::find(order.begin(), order.end(), axis) == order.end())
      order.push_back(axis);
  axes.resize(order.size());
  for (int axis : order) {
    int64_t size = mesh.axes(axis).size();
    if (size < 1 || size > MostRanks / rankCount)
      throw Error(ExitCode::BadInput, fmt::format("the mesh {}: the size of '{}' must be at least 1, and all together "
                                                  "at most {}",
                                                  textOf(mesh), mesh.axes(axis).name(), MostRanks));
    axes[axis] = {rankCount, size};
    rankCount *= size;
  }
}

/// The kind of processor for this many ranks on this many cores.
static int kindFor(const Cluster &cluster, const std::string &name, int64_t cores, int64_t ranks) {
  int64_t wanted = std::max<int64_t>(1, cores / std::max<int64_t>(1, ranks));
  int best = -1;
  for (int i = 0; i < cluster.devices_size(); ++i) {
    const Device &device = cluster.devices(i);
    if (device.name() == name && device.threads() <= wanted &&
        (best < 0 || device.threads() > cluster.devices(best).threads()))
      best = i;
  }
  if (best < 0)
    throw Error(ExitCode::BadInput, fmt::format("the cluster '{}' has no '{}' with {} threads or fewer, which each of "
                                                "{} ranks on a node of {} cores gets; add such a kind to its devices",
                                                cluster.name(), name, wanted, ranks, cores));
  return best;
}

void Layout::fillNodes() {
  int64_t perNode = (rankCount + nodeCount(onCluster) - 1) / nodeCount(onCluster);
  int64_t node = 0, position = 0;
  for (const Nodes &nodes : onCluster.nodes()) {
    if (position >= rankCount)
      break;
    Block block = {node, position, isOfProcessors(nodes) ? perNode : nodes.devices(), nodes.cores(), 0, 0};
    if (isOfProcessors(nodes)) {
      int64_t lastRanks = rankCount % perNode == 0 ? perNode : rankCount % perNode;
      block.device = kindFor(onCluster, nodes.device(), nodes.cores(), std::min(perNode, rankCount - position));
      block.lastDevice = kindFor(onCluster, nodes.device(), nodes.cores(), lastRanks);
    } else {
      auto named = [&](const Device &device) { return device.name() == nodes.device(); };
      auto found = std::find_if(onCluster.devices().begin(), onCluster.devices().end(), named);
      block.device = block.lastDevice = static_cast<int>(found - onCluster.devices().begin());
    }
    blocks.push_back(block);
    node += nodes.count();
    position += nodes.count() * block.each;
  }
}

/// Where fewer ranks are in a unit than devices could share its link, only those ranks share it.
void Layout::shareLinks() {
  for (int level = 0; level < onCluster.levels_size(); ++level) {
    int64_t most = 1; // devices in a unit of the level before
    if (level > 0 && extents[level - 1].nodes == 0)
      most = extents[level - 1].devices;
    else if (level > 0)
      for (const Block &block : blocks)
        most = std::max(most, block.each * extents[level - 1].nodes);
    Level &links = *onCluster.mutable_levels(level);
    if (level > 0)
      links.set_shared_by(static_cast<uint32_t>(std::min<int64_t>(links.shared_by(), std::min(most, rankCount))));
  }
}

const Layout::Block &Layout::blockOf(int64_t position) const {
  auto after = std::upper_bound(blocks.begin(), blocks.end(), position,
                                [](int64_t at, const Block &block) { return at < block.firstPosition; });
  return *std::prev(after);
}

int64_t Layout::nodeAt(int64_t position) const {
  const Block &block = blockOf(position);
  return block.firstNode + (position - block.firstPosition) / block.each;
}

int64_t Layout::ranksOnNode(const Block &block, int64_t node) const {
  int64_t first = block.firstPosition + (node - block.firstNode) * block.each;
  return std::min(block.each, rankCount - first);
}

/// The unit of a level that it is in; level -1 stands for devices.
int64_t Layout::unitAt(int level, int64_t position) const {
  if (level < 0)
    return position;
  const Extent &extent = extents[level];
  if (extent.nodes > 0)
    return nodeAt(position) / extent.nodes;
  // The devices of a node are a multiple of it.
  return position / extent.devices;
}

int64_t Layout::positionOf(int64_t rank) const {
  int64_t position = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    position += rank % axis->size * axis->stride;
    rank /= axis->size;
  }
  return position;
}

int Layout::deviceIndexOf(int64_t rank) const {
  int64_t position = positionOf(rank);
  const Block &block = blockOf(position);
  bool isFull = ranksOnNode(block, nodeAt(position)) == block.each;
  return isFull ? block.device : block.lastDevice;
}

const Device &Layout::deviceOf(int64_t rank) const { return onCluster.devices(deviceIndexOf(rank)); }

int64_t Layout::nodeOf(int64_t rank) const { return nodeAt(positionOf(rank)); }

int64_t Layout::ranksOnNodeOf(int64_t rank) const {
  int64_t position = positionOf(rank);
  return ranksOnNode(blockOf(position), nodeAt(position));
}

int64_t Layout::coresOfNodeOf(int64_t rank) const { return blockOf(positionOf(rank)).cores; }

Span Layout::spanOf(std::span<const int64_t> members) const {
  Span span;
  span.members = static_cast<int64_t>(members.size());
  std::vector<int64_t> positions;
  for (int64_t member : members)
    positions.push_back(positionOf(member));
  std::sort(positions.begin(), positions.end());
  // Positions in order are units in order, of every level.
  for (int level = 0; level < onCluster.levels_size(); ++level) {
    int64_t widest = 1, count = 0, unit = -1, inner = -1;
    for (int64_t position : positions) {
      if (int64_t at = unitAt(level, position); at != unit) {
        unit = at;
        count = 0;
        inner = -1;
      }
      if (int64_t at = unitAt(level - 1, position); at != inner) {
        inner = at;
        widest = std::max(widest, ++count);
      }
    }
    span.units.push_back(widest);
  }
  return span;
}

int Layout::levelBetween(int64_t rank, int64_t other) const {
  int64_t first = positionOf(rank), second = positionOf(other);
  for (int level = 0; level < onCluster.levels_size(); ++level)
    if (unitAt(level, first) == unitAt(level, second))
      return level;
  return onCluster.levels_size() - 1; // the outermost joins all
}

} // namespace dtc::timing
