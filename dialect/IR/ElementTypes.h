// The compiler's way to the table of element types.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "runtime/abi/element_type.h"

namespace mlir::dt {

/// The row of a tensor's, a vector's or a future's element type, or of an element type itself. The dialect has no types
/// that the table lacks (OpBase.td).
const dtc::abi::ElementType &elementTypeOf(Type type);

/// What a tensor, or the tensor that a future will be, takes in memory.
uint64_t bytesOf(Type type);

} // namespace mlir::dt
