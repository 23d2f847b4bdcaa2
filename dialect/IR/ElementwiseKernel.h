// Kernels that do the same to every element, whatever the shape of their tensors.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace mlir::dt {

/// Whether each element of a kernel's results depends on the same element of its tensors, on numbers that all share
/// (tensors of rank 0) and on nothing else, such as its position.
bool isElementwise(KernelOp kernel);

/// The same elementwise kernel, under the same name, for vectors of `count` elements.
OwningOpRef<KernelOp> overElements(KernelOp kernel, int64_t count);

/// What an elementwise kernel does to an element, as text without its name: equal for two that do the same.
std::string formulaOf(KernelOp kernel);

} // namespace mlir::dt
