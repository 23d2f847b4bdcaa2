// How operations that are not elementwise stand within kernels, and what they become in memory.
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

SmallVector<int64_t> dt::identityDims(Value tensor) {
  return llvm::to_vector(llvm::seq<int64_t>(0, cast<RankedTensorType>(tensor.getType()).getRank()));
}

bool ConstantOp::canBeFused() { return getSplat().has_value(); }

std::optional<SmallVector<int64_t>> BroadcastOp::getOperandDims(unsigned) { return SmallVector<int64_t>(getDims()); }

bool ReduceOp::canBeFused() { return !getType().getElementType().isInteger(1); } // a sum of masks is not a mask
ReductionKind ReduceOp::getReductionKind() { return getKind(); }
ArrayRef<int64_t> ReduceOp::getReducedDims() { return getDims(); }

/// The key, which every element reads.
std::optional<SmallVector<int64_t>> RandomOp::getOperandDims(unsigned) { return std::nullopt; }

/// Zeros with the operand written into them.
Value PadOp::buildInMemory(OpBuilder &builder) {
  auto zeros = ConstantOp::create(builder, getLoc(), getType(), 0.0);
  return UpdateSliceOp::create(builder, getLoc(), zeros, getOperand(), getOffsets()).getResult();
}
