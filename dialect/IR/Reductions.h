// What there is to know of a kind of reduction, in one table: how partial values combine, whatever asks.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/abi/manifest.pb.h"

namespace mlir::dt {

struct Reduction {
  ReductionKind kind;
  dtc::abi::Reduction collective; ///< what transports do
  double identity;                ///< what nothing combines to
  double (*combine)(double, double);
  /// Linear operations may be done on partial values, gradients exist, and rounding errors add up.
  bool isLinear;
  /// A value combined with itself is itself: partial values may each be the whole.
  bool isIdempotent;

  // Code of generated kernels. Of reals the combination may lose a NaN in `a`, but never one in `b` alone.
  bool losesNan;
  vector::CombiningKind realLanes, integerLanes;
  Value (*emit)(OpBuilder &builder, Location loc, Value a, Value b);
};

const Reduction &reductionOf(ReductionKind kind);
const Reduction &reductionOf(dtc::abi::Reduction collective);

/// The identity as an element of this type.
TypedAttr identityOf(const Reduction &reduction, Type element);

} // namespace mlir::dt
