// All about each kind of reduction, in one table: how partial values combine, whoever asks.
//
// Some kinds combine tuples: numbers that belong together. A row of an attention's output belongs with the logarithm of
// its weight, which says how much the row counts relative to others. Operations and shardings have one value and take
// only kinds of single numbers; collectives of command lists take all (Reduction and log_input in
// runtime/abi/manifest.proto).
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/abi/manifest.pb.h"

#include <cassert>
#include <optional>

namespace mlir::dt {

struct Reduction {
  StringLiteral name;
  dtc::abi::Reduction collective; ///< what transports do
  ArrayRef<double> identities;    ///< the result of combining nothing: one number for each of a tuple
  /// Combines a tuple with another one, in place.
  void (*combineTuples)(MutableArrayRef<double> into, ArrayRef<double> other);
  unsigned arity() const { return identities.size(); }

  // The rest is about single numbers.

  /// The kind in operations and shardings; none where tuples are combined.
  std::optional<ReductionKind> kind = std::nullopt;
  double identity() const {
    assert(arity() == 1 && "it combines tuples");
    return identities.front();
  }
  double combine(double a, double b) const {
    assert(arity() == 1 && "it combines tuples");
    combineTuples(a, b);
    return a;
  }
  /// Linear operations may be done on partial values, gradients exist, and rounding errors add up.
  bool isLinear = false;
  /// A value combined with itself is itself: partial values may each be the whole.
  bool isIdempotent = false;

  // For the code of generated kernels. On reals the combination may lose a NaN in `a`, but never one that is in `b`
  // alone.
  bool losesNan = false;
  vector::CombiningKind realLanes{}, integerLanes{};
  Value (*emit)(OpBuilder &builder, Location loc, Value a, Value b) = nullptr;
};

const Reduction &reductionOf(ReductionKind kind);
const Reduction &reductionOf(dtc::abi::Reduction collective);

/// The identity as an element of this type. Only for kinds of single numbers.
TypedAttr identityOf(const Reduction &reduction, Type element);

} // namespace mlir::dt
