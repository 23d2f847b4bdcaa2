// The bounds of a kernel's results. The kernel's meaning is evaluated in f64 at chosen elements, and each value carries
// the interval in which f32 arithmetic may end: a running error analysis (Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd edition, section 3.3), generic over the operations.
//
// An elementwise operation is evaluated at the corners of its operands' intervals, and the interval of the result grows
// by the operation's own error. A sum errs by the longest chain of f32 additions times the sum of magnitudes. Decisions
// that rounding may turn (a comparison, a select) give intervals that hold both outcomes.
#pragma once

#include "dialect/IR/HostTensor.h"
#include "dialect/IR/Ops.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace dtc::verify {

/// What an element may be. NaN in both: it must be NaN. From minus to plus infinity: it may be anything, NaN too.
struct Bounds {
  double low, high;

  bool areOfAnything() const { return std::isinf(low) && std::isinf(high) && low < high; }
};

/// Elements of a tensor, by their row-major numbers.
using Elements = std::shared_ptr<const std::vector<int64_t>>;

class RoundingBounds {
public:
  /// The stored value of an element of an argument.
  using Input = std::function<double(unsigned argument, int64_t element)>;

  /// Draws and counts depend on `rank`. With `flatSize` >= 0 reductions take only that many elements: a flat kernel
  /// gets its size as a scalar. Both references outlive this.
  RoundingBounds(mlir::dt::KernelOp kernel, const mlir::dt::RankContext &rank, Input input, int64_t flatSize = -1);

  /// The bounds of these elements of a value of the kernel, as its readers see them.
  const std::vector<Bounds> &of(mlir::Value value, const Elements &elements);

private:
  bool isRounded(mlir::Value value);
  std::vector<Bounds> compute(mlir::Value value, const Elements &elements);
  std::vector<Bounds> elementwise(mlir::dt::ElementwiseOpInterface op, const Elements &elements);
  std::vector<Bounds> reduction(mlir::dt::ReductionOpInterface op, const Elements &elements);
  std::vector<Bounds> counted(mlir::dt::IndexedOpInterface op, const Elements &elements);
  std::vector<Bounds> handedOn(mlir::Operation *op, const Elements &elements);

  mlir::dt::KernelOp kernel;
  const mlir::dt::RankContext &rank;
  Input input;
  int64_t flatSize;
  using Key = std::pair<void *, const void *>; ///< a value and its elements
  std::map<Key, std::vector<Bounds>> known;
  std::map<Key, Elements> projections; ///< for elements of an operation's result, those of its operand
  std::vector<Elements> kept;          ///< whose addresses are keys
};

} // namespace dtc::verify
