// What an operation costs a device, whatever its speed: its class, what it computes, and the memory it touches.
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::dt {

/// What the time of some work depends on. For work done together, the last of these counts.
enum class WorkClass {
  Elementwise, ///< each element is read and written once, whatever is computed from it
  Reduction,   ///< sums or maxima along rows, along columns or of all
  Movement,    ///< copies
  Indexed,     ///< rows of a table by their numbers: gathers, and sums by index
  Product,     ///< of matrices
  Attention,
  Communication,
};

struct Work {
  WorkClass kind = WorkClass::Elementwise;
  double flops = 0;                       ///< a multiply-add counts two
  double bytesRead = 0, bytesWritten = 0; ///< each byte once, however often it is touched

  Work &operator+=(const Work &other);
};

/// Bytes of a tensor, or of what a future holds.
double storedBytes(Type type);
double resultBytes(Operation *op);

} // namespace mlir::dt
