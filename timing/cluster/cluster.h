// A cluster, and where the ranks of a mesh lie on it.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.pb.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc::timing {

/// Reads a cluster file and checks every figure. Throws Error (BadInput) with the file, the line or the field, the
/// offending value, and what would be right.
Cluster readCluster(const std::string &path);
Cluster parseCluster(const std::string &text, const std::string &path);

/// What is wrong with a cluster's figures, or an empty string.
std::string findClusterFault(const Cluster &cluster);

/// How the members of a group lie: of each level, over how many of the units that it joins they spread, as many as in
/// the widest place. {8, 4}: in four nodes, eight in each. The product is at least the number of members.
struct Span {
  std::vector<int64_t> units;
  int64_t members = 1;
  /// The outermost level that joins any of them; -1 of a single member.
  int outermost() const;
  bool operator==(const Span &) const = default;
};

/// The ranks of a mesh on a cluster's devices.
class Layout {
public:
  /// Throws Error (BadInput) where the mesh has more ranks than the cluster has devices, or does not fit into its
  /// nodes. Copies what it needs.
  Layout(const Cluster &cluster, const abi::Mesh &mesh);

  const Cluster &cluster() const { return place; }
  int64_t ranks() const { return rankCount; }
  /// Its position on the cluster, from 0, when devices are counted from the first node on.
  int64_t positionOf(int64_t rank) const;
  const Device &deviceOf(int64_t rank) const;
  /// Index into Cluster.devices.
  int deviceIndexOf(int64_t rank) const;
  int64_t nodeOf(int64_t rank) const;
  /// Ranks that share the node of `rank`, and its cores (0: no processor's).
  int64_t ranksOnNodeOf(int64_t rank) const;
  int64_t coresOfNodeOf(int64_t rank) const;
  Span spanOf(std::span<const int64_t> members) const;
  /// The innermost level that joins two ranks.
  int levelBetween(int64_t rank, int64_t other) const;

private:
  Cluster place;
  int64_t rankCount = 0;
  std::vector<int64_t> strides; ///< of the mesh's axes, in positions
  std::vector<int64_t> sizes;
  int64_t perNode = 1;
};

} // namespace dtc::timing
