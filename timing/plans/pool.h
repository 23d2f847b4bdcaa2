// The candidates of a search, in a few words each: there may be millions.
//
// Candidates are related in three ways:
//   family   same mesh, split of the sequence and micro-batches, and the same stages on the same ranks. They do the
//            same products (Evaluated::floor)
//   group    of a family: they recompute the same and split backward passes alike. They have the same kernels, but for
//            those of their state (relatives.h)
//            The fewer of a group differ from it only in their micro-batches, of which it has several times as many
//   variant  of a family: same state and timetable. They differ only in what is recomputed
//
// Those with the same axes, in whatever order, may hold more than others (holding.h).
#pragma once

#include "timing/plans/bounds.h"
#include "timing/plans/dimensions.h"
#include "timing/plans/holding.h"
#include "timing/plans/search.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace dtc::plans {

/// Values of one part of candidates, by number.
template <typename Value> class Numbered {
public:
  uint32_t numberOf(const Value &value) {
    auto [entry, isNew] = numbers.try_emplace(value, static_cast<uint32_t>(values.size()));
    if (isNew)
      values.push_back(value);
    return entry->second;
  }
  const Value &operator[](uint32_t number) const { return values[number]; }
  size_t size() const { return values.size(); }

private:
  std::map<Value, uint32_t> numbers;
  std::vector<Value> values;
};

/// What relatives say, in the order in which it is counted behind bounds().
enum class OfRelatives { Floor, Kernels, Fewer, Lighter, Holding };

/// How many candidates each bound has pruned.
class PruneCounts {
public:
  /// Bounds by number: those of bounds(), then those of relatives.
  static size_t numberOf(const Bound *bound) { return static_cast<size_t>(bound - bounds().data()); }
  static size_t numberOf(OfRelatives bound) { return bounds().size() + static_cast<size_t>(bound); }

  /// `value`: the bound of a candidate that it pruned.
  void add(size_t bound, double value);
  /// Bounds that pruned any.
  std::vector<PrunedBy> list() const;

private:
  std::vector<PrunedBy> counts = std::vector<PrunedBy>(numberOf(OfRelatives::Holding) + 1);
};

struct PoolEntry {
  double bytes = 0, seconds = 0; ///< bounds by bounds()
  float expected = 0;            ///< seconds, or those of the bound if these are more
  uint32_t family = 0, group = 0, variant = 0;
  uint16_t state = 0, timetable = 0, recompute = 0;
  uint8_t bound = 0;                                 ///< that `seconds` are of, by number
  uint8_t recomputes = 0;                            ///< 0: nothing, 1: only what is cheap, 2: more
  bool givesFloor() const { return recomputes < 2; } ///< no product is recomputed
};

class Pool {
public:
  /// All candidates; those that bounds of bytes prune are counted and left out. Throws Error (BadInput) as search()
  /// does, and where there are more than 2^32. `problem` must outlive it.
  Pool(const Problem &problem, const std::vector<Constraint> &constraints);

  static constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
  /// Variants that recompute less: nothing, then only what is cheap; `none` for those that it does not have.
  std::array<uint32_t, 2> lighterThan(uint32_t number) const;
  Candidate candidateOf(uint32_t number) const;
  size_t numberOfFamilies() const { return families.size(); }
  size_t numberOfGroups() const { return groups.size(); }
  /// Groups, those with the fewest micro-batches first.
  const std::vector<uint32_t> &fewerThan(uint32_t group) const { return fewer[group]; }

  Holding holdingOf(uint32_t number) const;
  /// A number for the sizes of its axes.
  uint32_t axesOf(uint32_t number) const { return variants[entries[number].variant].axes; }
  size_t numberOfAxes() const { return axes.size(); }
  int64_t tensorRanksOf(uint32_t number) const { return axes[axesOf(number)].front(); }

  const Problem &problem;
  const BoundContext context;
  int64_t considered = 0;
  std::vector<PoolEntry> entries; ///< in the order of candidates
  PruneCounts pruned;

private:
  using AxisSizes = std::array<int64_t, 4>; ///< tp, cp, pp, dp
  /// Neighbours, since what is recomputed is decided last.
  struct Variant {
    uint32_t first = 0; ///< entry
    uint32_t axes = 0;
    Holding holding; ///< of the first
  };
  void add(const Candidate &candidate, const BoundInputs &inputs);
  void begin(const Candidate &candidate, const BoundInputs &inputs);
  void findFewer();

  Numbered<std::vector<MeshAxis>> meshes;
  Numbered<std::string> states, timetables, recomputations;
  std::vector<std::optional<abi::Recompute::Kind>> recomputeKinds; ///< of these, as in Holding
  /// Mesh, split of the sequence, micro-batches, and where stages are.
  Numbered<std::tuple<uint32_t, bool, int64_t, int>> families;
  Numbered<std::tuple<uint32_t, uint16_t, bool>> groups; ///< family, recomputation, whether backward is split
  Numbered<AxisSizes> axes;
  std::vector<Variant> variants;
  std::optional<Candidate> last;                         ///< that was added
  PoolEntry shared;                                      ///< what its variants have in common
  bool splitsBackward = false;                           ///< likewise
  std::vector<std::vector<uint32_t>> fewer;              ///< of groups
};

} // namespace dtc::plans
