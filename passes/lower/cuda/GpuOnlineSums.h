// Sums of exponentials that one sweep over a row can form beside the row's maximum, which they are relative to: they
// are kept relative to the largest element so far, and scaled whenever a larger one comes (Milakov and Gimelshein 2018,
// "Online normalizer calculation for softmax"). Without this a row that no block can hold is read once more.
#pragma once

#include "passes/lower/KernelPlan.h"

#include <optional>

namespace dtc {

struct OnlineSum {
  mlir::dt::ReductionOpInterface sum, maximum;
  mlir::Value base; ///< the maximum as the terms read it: spans the whole domain
};

/// `sum` as such a sum, if it is one: over the elements of a row, sum exp(x - max x), where both may leave out the same
/// elements.
std::optional<OnlineSum> findOnlineSum(const KernelPlan &plan, mlir::dt::ReductionOpInterface sum);

/// The sums of sweep `sweep` that the sweep before can form, if that leaves nothing to do in it; else none.
llvm::SmallVector<OnlineSum> onlineSumsOf(const KernelPlan &plan, unsigned sweep);

} // namespace dtc
