// Folds: what needs no new operation.
#include "dialect/IR/ElementTypes.h"
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
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed =
        llvm::map_to_vector(getPermutation(), [&](int64_t dim) { return inner.getPermutation()[dim]; });
    setPermutation(composed);
    setOperand(inner.getOperand());
    return getResult();
  }
  return resplat(adaptor.getOperand(), getType());
}

OpFoldResult ReduceOp::fold(FoldAdaptor) { return getDims().empty() ? OpFoldResult(getOperand()) : OpFoldResult(); }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}

// Neutral elements. Multiplication by zero stays: it must propagate a NaN.

/// Whether a constant operand is a splat of this number.
static bool isSplatOf(Attribute operand, double number) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(operand);
  if (!dense || !dense.isSplat())
    return false;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble() == number;
  return dense.getSplatValue<APInt>().getSExtValue() == static_cast<int64_t>(number);
}

/// The operand that is left where the other one is `neutral`: on the left only where the operation `commutes`.
template <typename Op>
static OpFoldResult foldNeutral(Op op, typename Op::FoldAdaptor adaptor, double neutral, bool commutes) {
  if (isSplatOf(adaptor.getRhs(), neutral))
    return op.getLhs();
  return commutes && isSplatOf(adaptor.getLhs(), neutral) ? OpFoldResult(op.getRhs()) : OpFoldResult();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) { return foldNeutral(*this, adaptor, 0, /*commutes=*/true); }
OpFoldResult SubOp::fold(FoldAdaptor adaptor) { return foldNeutral(*this, adaptor, 0, /*commutes=*/false); }
OpFoldResult MulOp::fold(FoldAdaptor adaptor) { return foldNeutral(*this, adaptor, 1, /*commutes=*/true); }
OpFoldResult DivOp::fold(FoldAdaptor adaptor) { return foldNeutral(*this, adaptor, 1, /*commutes=*/false); }

/// A value that went to a wider type, which holds it exactly, comes back unchanged; a detour through a narrower type
/// rounds.
OpFoldResult ConvertOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  auto inner = getOperand().getDefiningOp<ConvertOp>();
  if (!inner || inner.getOperand().getType() != getType())
    return {};
  const dtc::abi::ElementType &narrow = elementTypeOf(getType()), &wide = elementTypeOf(inner.getType());
  bool isExact = narrow.isFloating() && wide.isFloating() && wide.exponentBits >= narrow.exponentBits &&
                 wide.fractionBits >= narrow.fractionBits;
  return isExact ? OpFoldResult(inner.getOperand()) : OpFoldResult();
}
