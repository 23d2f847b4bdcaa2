// Gradients of constants, shapes, reductions and contractions: all are linear, so the gradient is the transposed map.
#include "dialect/IR/Expression.h"
#include "dialect/IR/Padding.h"
#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/AffineMap.h"

using namespace mlir;
using namespace mlir::dt;

using Gradients = SmallVectorImpl<Value>;

LogicalResult ConstantOp::buildGradient(OpBuilder &, ValueRange, Gradients &) { return success(); }

LogicalResult IotaOp::buildGradient(OpBuilder &, ValueRange, Gradients &) { return success(); }

LogicalResult RandomOp::buildGradient(OpBuilder &, ValueRange, Gradients &out) {
  out.push_back(Value());
  return success();
}

/// The dimensions below `rank` that are not in `dims`.
static SmallVector<int64_t> otherDims(ArrayRef<int64_t> dims, int64_t rank) {
  SmallVector<int64_t> others;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(dims, dim))
      others.push_back(dim);
  return others;
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(Expr(builder, getLoc(), g[0]).sum(otherDims(getDims(), getType().getRank())));
  return success();
}

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  if (!reductionOf(getKind()).isLinear)
    return emitOpError("cannot be differentiated: only sums have a gradient");
  auto type = getOperand().getType();
  out.push_back(Expr(builder, getLoc(), g[0]).broadcast(type.getShape(), otherDims(getDims(), type.getRank())));
  return success();
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(ReshapeOp::create(builder, getLoc(), getOperand().getType(), g[0]));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  SmallVector<int64_t> inverse = invertPermutationVector(getPermutation());
  out.push_back(TransposeOp::create(builder, getLoc(), getOperand().getType(), g[0], inverse));
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(PadOp::create(builder, getLoc(), getOperand().getType(), g[0], getOffsets()));
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(SliceOp::create(builder, getLoc(), getOperand().getType(), g[0], getOffsets()));
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  SmallVector<int64_t> offsets(getType().getRank(), 0);
  for (auto [index, operand] : llvm::enumerate(getOperands())) {
    auto type = cast<RankedTensorType>(operand.getType());
    SmallVector<int64_t> box = getBoxShape(index);
    Value piece = SliceOp::create(builder, getLoc(), type.clone(box), g[0], offsets);
    out.push_back(piece.getType() == type ? piece : ReshapeOp::create(builder, getLoc(), type, piece));
    offsets[getDim()] += box[getDim()];
  }
  return success();
}

/// For "l,r->o": d lhs = "o,r->l"(g, rhs) and d rhs = "l,o->r"(lhs, g). Every letter of an operand stands in the other
/// or in the result (C3), so both are contractions.
LogicalResult ContractOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  ContractSpec spec = *parseContractSpec(getSpec());
  std::string ofLhs = (spec.out + "," + spec.rhs + "->" + spec.lhs).str();
  std::string ofRhs = (spec.lhs + "," + spec.out + "->" + spec.rhs).str();
  out.push_back(ContractOp::create(builder, getLoc(), ofLhs, g[0], getRhs()));
  out.push_back(ContractOp::create(builder, getLoc(), ofRhs, getLhs(), g[0]));
  return success();
}

/// The gradient of gathered rows, but zero for those gathered at the index `padding`.
static Value maskPadding(OpBuilder &builder, GatherOp gather, int64_t padding, Value g) {
  Location loc = gather.getLoc();
  auto indices = cast<RankedTensorType>(gather.getIndices().getType());
  auto mask = RankedTensorType::get(indices.getShape(), builder.getI1Type());
  auto factors = RankedTensorType::get(indices.getShape(), getElementTypeOrSelf(g.getType()));
  Value ids = ConstantOp::create(builder, loc, indices, static_cast<double>(padding));
  Value kept = CompareOp::create(builder, loc, mask, CompareDirection::NE, gather.getIndices(), ids);
  Value ones = ConvertOp::create(builder, loc, factors, kept);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, indices.getRank()));
  return MulOp::create(builder, loc, g.getType(), g, BroadcastOp::create(builder, loc, g.getType(), ones, dims));
}

LogicalResult GatherOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  Value updates = g[0];
  if (Attribute padding = (*this)->getAttr(paddingAttr)) {
    auto index = dyn_cast<IntegerAttr>(padding);
    if (!index || !index.getType().isSignlessInteger(64))
      return emitOpError() << "dt.padding must be an i64, is " << padding;
    updates = maskPadding(builder, *this, index.getInt(), updates);
  }
  Value zeros = ConstantOp::create(builder, getLoc(), getTable().getType(), 0.0);
  out.push_back(ScatterAddOp::create(builder, getLoc(), zeros, getIndices(), updates, getSharding().value_or(nullptr)));
  out.push_back(Value());
  return success();
}

LogicalResult ScatterAddOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.append({g[0], Value()});
  out.push_back(
      GatherOp::create(builder, getLoc(), getUpdates().getType(), g[0], getIndices(), getSharding().value_or(nullptr)));
  return success();
}

LogicalResult TagOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(TagOp::create(builder, getLoc(), g[0], getName(), getDimNames(), getSharding().value_or(nullptr)));
  return success();
}
