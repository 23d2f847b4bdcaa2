// Ranks that need not be distinguished: they play one role, and meet the same classes of ranks.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/abi/mesh.h"

#include <cstdint>
#include <set>
#include <vector>

namespace dtc::timing {

/// How a role meets others: in a group of the table, all of it, or the member that many places further on.
struct Way {
  uint32_t group;
  int64_t shift; ///< 0: all; else from 1 to the group's members - 1
  auto operator<=>(const Way &) const = default;
};

/// The way of a start, a send or a receive.
Way wayOf(const abi::Manifest &manifest, const abi::Command &command);

/// The ways that the lists of a role's timetables use.
std::set<Way> waysOf(const abi::Manifest &manifest, const abi::Role &role);

/// The coarsest division into classes so that
///   - ranks of one class play one role;
///   - of each group that the role uses, the members of one rank are of the same set of classes as those of another;
///   - the other end of each of the role's sends and receives is of one class.
/// Found by refinement: roles are the first division, which is split by the classes that ranks meet until nothing more
/// splits.
struct RankClasses {
  struct Class {
    int role;
    int first; ///< its lowest rank
  };
  std::vector<Class> classes;
  std::vector<uint32_t> ofRanks;
};

/// `ways`: those of each role. Throws Error (BadInput) for a rank that is no member of a group that its role uses.
RankClasses classify(const abi::Manifest &manifest, const Mesh &mesh, const std::vector<std::set<Way>> &ways);

} // namespace dtc::timing
