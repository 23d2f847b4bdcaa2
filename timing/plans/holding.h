// What evaluated candidates say about the memory of others.
//
// Some candidates hold at least as much as others of the same axes: they keep more for the backward pass, split less
// state, or have more data in flight. Where the devices have equal memory, what does not fit excludes all that hold
// more. And how much more candidates took than what is sure to be there tells which others will probably not fit: these
// are tried last.
#pragma once

#include "runtime/abi/recompute.h"
#include "timing/plans/bound_context.h"
#include "timing/plans/bound_inputs.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace dtc::plans {

/// What of a candidate decides how much it holds, beside the sizes of its axes.
struct Holding {
  explicit Holding(const BoundInputs &inputs);

  bool splitsSequence;
  int64_t hybrid; ///< as in BoundInputs
  int splits;     ///< 0: no state; 1: slots, 2: gradients, too, 3: parameters, too
  int64_t microBatches;
  const TimetableFacts *timetable;               ///< null: without a pipeline
  std::optional<abi::Recompute::Kind> recompute; ///< nullopt: what has no place in the order of what they keep
  double state = 0;                              ///< bytes of parameters, slots and gradients
  double kept = 0;                               ///< bytes that are in flight if a layer keeps no more than its input
};

/// What a candidate takes at least of what one takes that holds no more, by holdsMore.
///
/// This is not proven, and so the share is not 1: what is gathered and what is recomputed takes memory for a while.
/// plan_holding_test compares such pairs.
inline constexpr double holdingShare = 0.9;

/// Whether a candidate holds at least as much as another one with the same axes.
bool holdsMore(const Holding &one, const Holding &other);

/// How much of their memory candidates with some number of tensor-parallel ranks will probably take.
class HoldingEstimate {
public:
  /// Bytes; 0: nothing is known about candidates that keep the same of such layers.
  double bytesOf(const Holding &holding) const;
  void learn(const Holding &holding, double bytes);

private:
  struct Mean {
    double sum = 0, count = 0;
  };
  static constexpr size_t kinds = static_cast<size_t>(abi::Recompute::Kind::Full) + 1;
  static size_t numberOf(const Holding &holding) {
    return (holding.splitsSequence ? kinds : 0) + static_cast<size_t>(*holding.recompute);
  }
  std::array<Mean, 2 * kinds> times; ///< of Holding::kept
};

} // namespace dtc::plans
