// The order of mesh axes on a cluster, and what another order would send between nodes. Private to tools/dtc/advice.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Another order must send at least this share less between nodes: orders that differ by less are as good.
inline constexpr double leastFewer = 0.1;
/// And links must be free for this share of a step longer: what is hardly sent need not be placed well.
inline constexpr double leastSaving = 0.01;

/// Bytes a second of one device, in one direction, when all that share a link use it.
double bandwidthOf(const timing::Level &links);

/// The axes of more than one rank, those whose ranks are closest together first.
std::vector<std::string> axesInsideOut(const abi::Mesh &mesh, const timing::Cluster &cluster);

/// How to have the axes in that order, from the inside outwards: "--mesh pp=2,dp=4", or the lines axis_order of the
/// cluster file, where it has some.
std::string orderText(const abi::Mesh &mesh, const timing::Cluster &cluster, const std::vector<std::string> &insideOut);

/// What a rank sends to other nodes in a step, as the mean over ranks.
struct BetweenNodes {
  double bytes = 0;
  double seconds = 0; ///< that a device's share of the links takes for them
};

struct BetterOrder {
  std::vector<std::string> present, order; ///< from the inside outwards
  BetweenNodes now, then;
  bool movesTensorInside = false; ///< tp crosses nodes now, and would not then
};

/// The order that sends the fewest bytes between nodes, if it sends enough fewer than the present one.
///
/// A collective of M bytes, over H nodes with g members each, sends what the H nodes exchange, a g-th by each member:
/// 2 (H-1)/H M / g for an all-reduce and half of that for others, as hierarchical algorithms do. An all-to-all's member
/// sends (H-1)/H of what it holds. No order moves tp out of its nodes, whose collectives nothing hides. Of more than
/// six axes nothing is said.
std::optional<BetterOrder> findBetterOrder(const abi::Manifest &program, const timing::Layout &layout);

} // namespace dtc
