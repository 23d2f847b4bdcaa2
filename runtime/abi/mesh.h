// Ranks, axes and groups. Ranks are numbered row-major over the mesh axes: the last axis varies fastest.
//
// An AxisRef names a whole axis or one digit of it: an axis of size n = pre * size * post, seen as three digits (most
// significant first), contributes the middle one. On the mesh dp=2,tp=4 rank 6 has dp=1, tp=2; the reference
// {tp, pre 1, size 4} is digit 2, {tp, pre 1, size 2} digit 1 and {tp, pre 2, size 2} digit 0.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// The ranks of one collective, in the order that numbers their parts and adds their terms.
struct Group {
  std::vector<int> ranks;
  int self = 0;         ///< index in `ranks` of the rank this group was made for
  uint32_t channel = 0; ///< on which they communicate, below MaximumChannels

  int size() const { return static_cast<int>(ranks.size()); }
};

class Mesh {
public:
  using AxisRefs = google::protobuf::RepeatedPtrField<abi::AxisRef>;

  /// Throws Error (BadInput) for an axis without a size, two axes of the same name, or more than 2^20 ranks.
  explicit Mesh(const abi::Mesh &mesh);

  int ranks() const { return totalRanks; }

  /// Index of `rank` within `axes`: their digits row-major, the first most significant. Zero for no axes.
  int64_t indexOf(int rank, const AxisRefs &axes) const;

  /// For each rank, the lowest rank that differs from it only in `axes`.
  std::vector<int> lowestOfEach(const AxisRefs &axes) const;

  /// The ranks that differ from `rank` only in `axes`, numbered row-major over them.
  Group group(int rank, const AxisRefs &axes) const;
  /// The group of a manifest as `rank` sees it; without ranks if `rank` is not a member.
  Group group(int rank, const abi::Group &group) const;
  /// Whether `rank` takes part in a group.
  bool isMember(int rank, const abi::Group &group) const;
  /// The member `shift` places after this rank in one of its groups, cyclically.
  int neighbour(int rank, const abi::Group &group, int64_t shift) const;

private:
  /// One digit of the rank number: (rank / stride) % size.
  struct Digit {
    int64_t stride, size;
  };
  std::vector<Digit> digits(const AxisRefs &axes) const;

  std::vector<abi::Axis> axes;
  int totalRanks = 1;
};

/// The groups of a manifest as `rank` sees them, in the manifest's order; a group is without ranks if `rank` is not a
/// member.
std::vector<Group> groupsOf(const abi::Manifest &manifest, int rank);

} // namespace dtc
