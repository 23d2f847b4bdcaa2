// A cluster, and where the ranks of a mesh are on it.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.pb.h"
#include "timing/cluster/extents.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc::timing {

/// Reads a cluster file and checks every figure. Throws Error (BadInput) with the file, the line or the field, the
/// offending value, and what would be right.
Cluster readCluster(const std::string &path);
Cluster parseCluster(const std::string &text, const std::string &path);
/// In the form of cluster files, so that parseCluster reads it back.
std::string printCluster(const Cluster &cluster);

/// What is wrong with a cluster's figures, or an empty string.
std::string findClusterFault(const Cluster &cluster);

/// How the members of a group are spread: for each level, over how many of the units that it joins, counted in the
/// widest place. {8, 4}: over four nodes, eight in each. The product is at least the number of members.
struct Span {
  std::vector<int64_t> units;
  int64_t members = 1;
  /// The outermost level that joins any of them; -1 for a single member.
  int outermost() const;
  bool operator==(const Span &) const = default;
};

/// The ranks of a mesh on a cluster's devices.
///
/// Mesh axes are laid on positions from the inside outwards: first those that axis_order names, in its order, then the
/// mesh's others, the last one first. So without axis_order rank r has position r. Positions fill nodes in their order:
/// with GPUs as many as each node has, with processors equally many on each, ceil(ranks / nodes). Ranks on a
/// processor's node share its cores: a rank's device is the kind of that name with as many threads as the rank gets
/// cores, or the next smaller one.
class Layout {
public:
  /// Throws Error (BadInput) where the mesh has more ranks than the cluster has devices, or does not fit into its
  /// nodes. Copies what it needs. The cluster must be one that findClusterFault finds nothing wrong with.
  Layout(const Cluster &cluster, const abi::Mesh &mesh);

  /// The cluster as these ranks find it: no link is shared by more devices than there are ranks in the unit that it
  /// leads out of.
  const Cluster &cluster() const { return onCluster; }
  int64_t ranks() const { return rankCount; }
  /// Its position on the cluster, from 0, when devices are counted from the first node on.
  int64_t positionOf(int64_t rank) const;
  const Device &deviceOf(int64_t rank) const;
  /// Index into Cluster.devices.
  int deviceIndexOf(int64_t rank) const;
  int64_t nodeOf(int64_t rank) const;
  /// Ranks that share the node of `rank`, and its cores (0: not a processor's).
  int64_t ranksOnNodeOf(int64_t rank) const;
  int64_t coresOfNodeOf(int64_t rank) const;
  Span spanOf(std::span<const int64_t> members) const;
  /// The innermost level that joins two ranks.
  int levelBetween(int64_t rank, int64_t other) const;

private:
  /// Nodes of one entry of Cluster.nodes, those that have ranks.
  struct Block {
    int64_t firstNode, firstPosition;
    int64_t each; ///< positions of each node
    int64_t cores;
    int device, lastDevice; ///< kinds; with processors the last node of all may have fewer ranks, and so another kind
  };

  void layAxes(const abi::Mesh &mesh);
  void fillNodes();
  void shareLinks();
  const Block &blockOf(int64_t position) const;
  int64_t nodeAt(int64_t position) const;
  int64_t ranksOnNode(const Block &block, int64_t node) const;
  int64_t unitAt(int level, int64_t position) const;

  Cluster onCluster;
  int64_t rankCount = 1;
  struct Axis {
    int64_t stride, size; ///< in positions
  };
  std::vector<Axis> axes; ///< of the mesh, its first one first
  std::vector<Block> blocks;
  std::vector<Extent> extents; ///< of the levels
};

} // namespace dtc::timing
