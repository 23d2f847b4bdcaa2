#include "timing/plans/holding.h"

#include "timing/plans/held.h"
#include "timing/plans/work.h"

#include <algorithm>

namespace dtc::plans {

Holding::Holding(const BoundInputs &inputs)
    : splitsSequence(inputs.splitsSequence), hybrid(inputs.hybrid), splits(inputs.isSplit[2]   ? 3
                                                                           : inputs.isSplit[1] ? 2
                                                                                               : inputs.isSplit[0]),
      microBatches(inputs.microBatches), timetable(inputs.timetable) {
  using Kind = abi::Recompute::Kind;
  if (inputs.recompute && inputs.recompute->kind <= Kind::Full && inputs.recompute->group == 1)
    recompute = inputs.recompute->kind;
  state = stateBytes(inputs);
  kept = keptBytesOfLayer(inputs) * layersInFlight(inputs);
}

/// Of the same timetable: in each stage data of at least as many samples.
static bool hasMoreInFlight(const Holding &one, const Holding &other) {
  if (one.microBatches > other.microBatches || (one.microBatches == 1) != (other.microBatches == 1))
    return false; // a single micro-batch has no gradients to add to
  if (!one.timetable)
    return true;
  const TimetableFacts &mine = *one.timetable, &its = *other.timetable;
  if (mine.name != its.name || !mine.isFlushed || !its.isFlushed)
    return false;
  for (size_t stage = 0; stage < mine.held.size(); ++stage)
    if (mine.held[stage] * real(other.microBatches) < its.held[stage] * real(one.microBatches))
      return false;
  return true;
}

/// Neighbours that share state share it with fewer than all ranks, and no state is split less than theirs.
static bool splitsLess(const Holding &one, const Holding &other) {
  if (one.splits != other.splits)
    return one.splits < other.splits && other.splits > 1 && (one.splits == 0 || other.hybrid == 0);
  return one.hybrid == other.hybrid || other.hybrid == 0 || (one.hybrid > 0 && one.hybrid < other.hybrid);
}

/// Ways in between are not compared: what is recomputed may need more for a while than what need not be kept.
static bool keepsMore(const Holding &one, const Holding &other) {
  using Kind = abi::Recompute::Kind;
  return one.recompute && other.recompute &&
         (one.recompute == other.recompute || one.recompute == Kind::None || other.recompute == Kind::Full);
}

bool holdsMore(const Holding &one, const Holding &other) {
  return one.splitsSequence == other.splitsSequence && keepsMore(one, other) && splitsLess(one, other) &&
         hasMoreInFlight(one, other);
}

double HoldingEstimate::bytesOf(const Holding &holding) const {
  if (!holding.recompute)
    return 0;
  const Mean &mean = times[numberOf(holding)];
  return mean.count > 0 ? holding.state + holding.kept * mean.sum / mean.count : 0;
}

void HoldingEstimate::learn(const Holding &holding, double bytes) {
  if (holding.kept <= 0 || !holding.recompute)
    return;
  Mean &mean = times[numberOf(holding)];
  mean.sum += std::max(0.0, bytes - holding.state) / holding.kept;
  ++mean.count;
}

} // namespace dtc::plans
