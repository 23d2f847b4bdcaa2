// Which rank has which role of a program.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::abi {

/// Calls visit(rank) for each rank of a range while it returns true; returns whether it always did.
template <typename Visit> bool forEachRank(const RankRange &range, Visit visit) {
  uint64_t stride = range.stride() == 0 ? 1 : range.stride();
  for (uint64_t i = 0; i < range.count(); ++i)
    if (!visit(range.first() + i * stride))
      return false;
  return true;
}

inline bool contains(const RankRange &range, int64_t rank) {
  int64_t stride = range.stride() == 0 ? 1 : range.stride(), after = rank - range.first();
  return after >= 0 && after % stride == 0 && after / stride < range.count();
}

/// A rank that has a role: the lowest of its first range.
inline int firstRankOf(const Role &role) { return role.ranks().empty() ? 0 : static_cast<int>(role.ranks(0).first()); }

/// The index of the role of `rank`. Throws Error (BadInput) if the manifest has none for it.
inline int roleIndexOf(const Manifest &manifest, int64_t rank) {
  if (manifest.roles_size() == 1 && manifest.roles(0).ranks().empty())
    return 0;
  for (int index = 0; index < manifest.roles_size(); ++index)
    for (const RankRange &range : manifest.roles(index).ranks())
      if (contains(range, rank))
        return index;
  throw Error(ExitCode::BadInput, "the program has no role for rank " + std::to_string(rank) + "; compile it again");
}

/// The role index of each of `ranks` ranks.
inline std::vector<int> roleIndices(const Manifest &manifest, int ranks) {
  std::vector<int> indices;
  for (int rank = 0; rank < ranks; ++rank)
    indices.push_back(roleIndexOf(manifest, rank));
  return indices;
}

/// Whether its ranks compute on GPUs; otherwise they compute on processors.
inline bool isForGpus(const Manifest &manifest) { return manifest.target().starts_with("cuda:"); }

inline const Role &roleOf(const Manifest &manifest, int64_t rank) {
  return manifest.roles(roleIndexOf(manifest, rank));
}

} // namespace dtc::abi
