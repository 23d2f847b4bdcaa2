// Which operations run in generated kernels, whatever the target.
#pragma once

#include "dialect/IR/Ops.h"

namespace dtc {

/// Whether code can be generated for elements of this type: all but i8. A kernel of another type is an error. Within a
/// kernel bf16 and f16 are f32: they are widened where they are loaded and rounded to the nearest where they are
/// stored or converted, for their readers in the kernel too; other operations keep the digits of f32.
bool hasKernelCode(mlir::Type type);

/// Whether generated code exists for this operation: it may be fused, and is not left to the library because its type
/// has no code.
bool isKernelOp(mlir::Operation *op);

/// Whether something outside kernels reads the value: then it is stored, whatever the kernels are.
bool isReadOutsideKernels(mlir::Value value);

} // namespace dtc
