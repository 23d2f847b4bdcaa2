#include "timing/plans/places.h"

#include <algorithm>
#include <memory>
#include <string>

namespace dtc::plans {

/// What of a cluster says where ranks are: it is copied for each mesh, and measured figures are long.
static timing::Cluster withoutFigures(const timing::Cluster &cluster) {
  timing::Cluster bare;
  bare.set_name(cluster.name());
  for (const timing::Device &device : cluster.devices()) {
    timing::Device &kind = *bare.add_devices();
    kind.set_name(device.name());
    kind.set_threads(device.threads());
    kind.set_memory_bytes(device.memory_bytes());
  }
  *bare.mutable_nodes() = cluster.nodes();
  for (const timing::Level &level : cluster.levels())
    bare.add_levels()->set_units(level.units());
  *bare.mutable_axis_order() = cluster.axis_order();
  return bare;
}

static abi::Mesh meshOfAxes(std::span<const MeshAxis> axes) {
  abi::Mesh mesh;
  for (const MeshAxis &each : axes) {
    abi::Axis &axis = *mesh.add_axes();
    axis.set_name(each.name);
    axis.set_size(each.size);
  }
  return mesh;
}

Places::Places(const timing::Cluster &cluster, int64_t devices)
    : cluster(withoutFigures(cluster)), line(this->cluster, meshOfAxes(std::vector<MeshAxis>{{"dp", devices}})) {
  findFillings();
}

std::vector<int64_t> Places::stridesOf(std::span<const MeshAxis> mesh) const {
  timing::Layout layout(cluster, meshOfAxes(mesh));
  std::vector<int64_t> strides(mesh.size());
  int64_t second = 1; // the rank that differs from rank 0 in this axis alone, by one
  for (size_t axis = mesh.size(); axis-- > 0; second *= mesh[axis].size)
    strides[axis] = layout.positionOf(second);
  return strides;
}

Places::GroupSpread Places::spreadOfGroup(std::span<const int64_t> members) const {
  GroupSpread spread = line.spanOf(members).units;
  std::vector<int64_t> kinds(static_cast<size_t>(cluster.devices_size()));
  int64_t nodes = 0, last = -1; // members ascend
  for (int64_t member : members) {
    int kind = line.deviceIndexOf(member);
    ++kinds[static_cast<size_t>(kind)];
    if (cluster.devices(kind).memory_bytes() > 0)
      continue;
    int64_t node = line.nodeOf(member);
    nodes += node != last;
    last = node;
  }
  spread.insert(spread.end(), kinds.begin(), kinds.end());
  spread.push_back(nodes);
  return spread;
}

size_t Places::spreadOf(int64_t stride, int64_t size) {
  auto [found, isNew] = known.try_emplace({stride, size});
  if (!isNew)
    return found->second;
  std::map<GroupSpread, int64_t> spreads;
  std::vector<int64_t> members(static_cast<size_t>(size));
  for (int64_t first = 0; first < line.ranks(); ++first) {
    if (first / stride % size != 0)
      continue;
    for (size_t i = 0; i < members.size(); ++i)
      members[i] = first + static_cast<int64_t>(i) * stride;
    ++spreads[spreadOfGroup(members)];
  }
  return found->second = numbers.try_emplace(std::move(spreads), numbers.size()).first->second;
}

/// Blocks of equally many neighbouring positions, each of which is within a unit, the first one all of it.
void Places::findFillings() {
  const int64_t devices = line.ranks();
  auto add = [&](const auto &areInOne) {
    int64_t block = 1;
    while (block < devices && areInOne(0, block))
      ++block;
    if (block == 1 || block == devices || devices % block != 0)
      return;
    for (int64_t first = 0; first < devices; first += block)
      if (!areInOne(first, first + block - 1))
        return;
    blocks.push_back(block);
  };
  add([&](int64_t a, int64_t b) { return line.nodeOf(a) == line.nodeOf(b); });
  for (int level = 0; level < cluster.levels_size(); ++level)
    add([&](int64_t a, int64_t b) { return line.levelBetween(a, b) <= level; });
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
}

Places &placesOf(const Problem &problem) {
  struct Kept {
    std::string cluster;
    int64_t devices = 0;
    std::unique_ptr<Places> places;
  };
  thread_local Kept kept;
  std::string cluster = withoutFigures(problem.cluster).SerializeAsString();
  if (!kept.places || kept.devices != problem.devices || kept.cluster != cluster) {
    kept.places = std::make_unique<Places>(problem.cluster, problem.devices);
    kept.cluster = std::move(cluster);
    kept.devices = problem.devices;
  }
  return *kept.places;
}

} // namespace dtc::plans
