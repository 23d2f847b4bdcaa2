// List scheduling: makes a timetable by letting time pass. A rank that is free takes one of the entries whose inputs
// are there, by a policy; where it would wait, it computes weight gradients that wait. Memory is never over the limit,
// and no choice leads into a standstill:
//
//   A forward pass is begun only while the stashes of the rank's later stages have room as well. So the oldest
//   micro-batch always finds room in all stages before it, goes through, and gives its memory back.
#pragma once

#include "timing/timetables/simulate.h"

#include <limits>

namespace dtc::timetables {

/// What a rank prefers among entries whose inputs are there.
struct Policy {
  bool forwardFirst = false;     ///< forward passes before input gradients
  bool laterForwardFirst = true; ///< of forward passes those of the rank's later stages; else of earlier micro-batches
  bool laterInputFirst = true;   ///< the same of input gradients
  /// A rank computes weight gradients rather than wait, unless the next input comes so soon that this would delay it
  /// by more than this share of the time the weight gradients take.
  double patience = 0;
  /// Weight gradients come first as soon as so many micro-batches' wait.
  int32_t mostWeights = std::numeric_limits<int32_t>::max();
};

/// Fills the lists of `frame`, a timetable whose lists are empty. `memoryLimit` in the unit of stashes, for each rank:
/// at least the sum of the stashes of its stages. Backward passes are split. Takes time proportional to entries times
/// ranks.
Timetable scheduleGreedily(Timetable frame, const Costs &costs, double memoryLimit, const Policy &policy);

} // namespace dtc::timetables
