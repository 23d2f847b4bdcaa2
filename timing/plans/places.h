// Where the ranks of mesh axes are on a cluster, for all meshes of as many ranks at once.
#pragma once

#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <map>
#include <span>
#include <utility>
#include <vector>

namespace dtc::plans {

/// Positions are those of timing::Layout: devices in the order in which ranks fill nodes. Ranks that differ in one axis
/// alone have positions that are equally far apart, the axis's stride. So how an axis is spread follows from its stride
/// and its size, and few of these are found in many meshes.
class Places {
public:
  /// Throws Error (BadInput) as timing::Layout does.
  Places(const timing::Cluster &cluster, int64_t devices);

  /// The stride of each axis of a mesh, which has as many ranks as there are devices.
  std::vector<int64_t> stridesOf(std::span<const MeshAxis> mesh) const;

  /// A number that stands for how the groups of an axis are spread: over the units of each level (timing::Span), over
  /// kinds of devices and, where ranks share their node's memory, over nodes. Equal numbers: groups are spread alike.
  size_t spreadOf(int64_t stride, int64_t size);

  /// How many devices a node has, and how many each level joins, in ascending order: numbers that divide the devices,
  /// between 1 and all of them.
  std::span<const int64_t> fillings() const { return blocks; }

private:
  using GroupSpread = std::vector<int64_t>;

  GroupSpread spreadOfGroup(std::span<const int64_t> members) const;
  void findFillings();

  timing::Cluster cluster;
  timing::Layout line; ///< of a single axis: ranks are positions
  std::vector<int64_t> blocks;
  std::map<std::pair<int64_t, int64_t>, size_t> known;      ///< by stride and size
  std::map<std::map<GroupSpread, int64_t>, size_t> numbers; ///< by how many groups have each spread
};

/// Those of a problem. They are kept until this thread asks for another cluster or another number of devices.
Places &placesOf(const Problem &problem);

} // namespace dtc::plans
