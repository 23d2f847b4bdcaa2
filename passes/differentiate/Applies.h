// Whether a step changes the state: its loss, and what else is known of it, must be finite, and some token must count.
#pragma once

#include "dialect/IR/Expression.h"

#include "llvm/ADT/Sequence.h"

#include <limits>

namespace dtc {

/// True where the number is neither infinite nor NaN: comparisons are ordered.
inline mlir::dt::Expr isFinite(mlir::dt::Expr number) {
  using mlir::dt::CompareDirection;
  double largest = std::numeric_limits<float>::max();
  mlir::dt::Expr below = number.compare(CompareDirection::LE, number.splat(largest));
  mlir::dt::Expr above = number.compare(CompareDirection::GE, number.splat(-largest));
  return below.apply<mlir::dt::AndOp>(below, above);
}

/// `finite`: whether what must be finite is.
inline mlir::dt::Expr changesState(mlir::dt::Expr finite, mlir::dt::Expr tokenCount) {
  return finite.apply<mlir::dt::AndOp>(finite,
                                       tokenCount.compare(mlir::dt::CompareDirection::GT, tokenCount.splat(0)));
}

/// The factor that makes a gradient of that norm as long as `clipNorm`, if it is below 1.
inline mlir::dt::Expr clippingRatio(mlir::dt::Expr norm, double clipNorm) { return clipNorm / (norm + 1e-6); }

/// Of all elements, in f32.
inline mlir::dt::Expr squareSum(mlir::dt::Expr gradient) {
  return square(gradient.widened()).sum(llvm::to_vector(llvm::seq<int64_t>(0, gradient.getRank())));
}

/// 1 or 0, for the host.
inline mlir::Value asNumber(mlir::dt::Expr mask, mlir::Type element) {
  return mask.apply<mlir::dt::ConvertOp>(mask.typeWith(element), mask);
}

} // namespace dtc
