// What operations and the emitter of generated kernels hand to each other; see FusibleOpInterface and
// IndexedOpInterface.
#pragma once

#include "mlir/IR/Builders.h"

namespace mlir::dt {

/// What a call of a kernel offers to an operation whose elements depend on their position: code for its launch scalars
/// (64-bit integers) and for single elements of operands that are read whole.
struct KernelCall {
  llvm::function_ref<Value(unsigned scalar)> scalar;
  llvm::function_ref<Value(unsigned operand, int64_t element)> element;
};

/// What such an operation computes once a call.
struct IndexedCode {
  Value origin; ///< number of the local tensor's first element, a 64-bit integer; null: 0
  Value shared; ///< whatever else all elements need
};

/// gelu(x) and gelu'(x), in the form with tanh, of a scalar or a vector.
Value emitTanhGelu(OpBuilder &builder, Location loc, Value x);
Value emitTanhGeluDerivative(OpBuilder &builder, Location loc, Value x);

} // namespace mlir::dt
