// The compiler's access to the table of element types.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "runtime/abi/element_type.h"

namespace mlir::dt {

/// The row of a tensor's, a vector's or a future's element type, or of an element type itself. The dialect has no types
/// that the table lacks (OpBase.td).
const dtc::abi::ElementType &elementTypeOf(Type type);

/// The bytes that a tensor, or the tensor that a future will be, takes in memory.
uint64_t bytesOf(Type type);

/// The shape of a tensor, or of the tensor that a future will be.
ArrayRef<int64_t> shapeOf(Type type);
inline ArrayRef<int64_t> shapeOf(Value value) { return shapeOf(value.getType()); }

/// Whether the elements of a tensor are floating-point numbers.
inline bool hasFloats(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

} // namespace mlir::dt
