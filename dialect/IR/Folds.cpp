// Folds: what needs no new operation.
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

/// A splat constant under another type, or null.
static Attribute resplat(Attribute operand, RankedTensorType type) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(operand);
  return dense && dense.isSplat() ? dense.resizeSplat(type) : Attribute();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    setOperand(inner.getOperand());
    return getResult();
  }
  return resplat(adaptor.getOperand(), getType());
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}

OpFoldResult ReduceOp::fold(FoldAdaptor) { return getDims().empty() ? OpFoldResult(getOperand()) : OpFoldResult(); }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}
