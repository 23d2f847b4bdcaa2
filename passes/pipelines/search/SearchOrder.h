// A better order: by trials, each of which is laid out and simulated.
//
// The simple order is correct on any cluster. On a known one, it can be predicted what ranks wait for, and what might
// hide it (passes/schedule/order/OrderCandidates.h). Candidates are tried one after the other, the most promising for
// the longest wait first; what makes the step shorter and takes no more memory stays. So a search can be ended at any
// time, never leads to a longer step than the simple one, and always gives the same result.
#pragma once

#include "passes/pipelines/Compile.h"
#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"

namespace dtc {

struct SearchLimits {
  uint64_t effort = 1; ///< plans that are tried, including the initial one; at least 1
  uint64_t memory = 0; ///< bytes of the largest arena; 0: a sixteenth more than the initial one takes
  size_t enough = 0;   ///< with fewer plans tried, the best is tried with buckets of other sizes
};

/// Searches from `given` on. `layout` is for the planner's mesh. Fails, with diagnostics, if `given` leads to no plan.
mlir::FailureOr<SearchedOrder> searchOrder(Planner &planner, const Choices &given, const timing::Layout &layout,
                                           const SearchLimits &limits);

} // namespace dtc
