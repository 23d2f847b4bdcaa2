// Sums of exponentials that one pass over their terms can form together with the maximum that they are relative to:
// they are kept relative to the largest element seen, and rescaled whenever a larger one comes (Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax").
#pragma once

#include "dialect/IR/Ops.h"

#include <optional>

namespace mlir::dt {

struct OnlineSum {
  ReductionOpInterface sum, maximum;
  Value base; ///< the maximum as the terms read it: of their shape
};

/// `sum` as such a sum, if it is one: sum exp(x - max x) in f32, where both leave out the same elements, if any.
std::optional<OnlineSum> findOnlineSum(ReductionOpInterface sum);

} // namespace mlir::dt
