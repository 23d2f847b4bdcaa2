// Which operations run in generated kernels.
#include "passes/analysis/KernelOps.h"

#include "dialect/IR/ElementTypes.h"

using namespace mlir;

bool dtc::hasKernelCode(Type type) { return dt::elementTypeOf(type).type != abi::I8; }

bool dtc::isKernelOp(Operation *op) {
  return dt::isFusible(op) && (hasKernelCode(op->getResult(0).getType()) || !isa<dt::LibraryOpInterface>(op));
}

bool dtc::isReadOutsideKernels(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return !isKernelOp(user); });
}
