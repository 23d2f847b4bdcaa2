// What collectives move: tensors as rows of contiguous elements.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"

using namespace mlir;
using namespace mlir::dt;

/// Product of the sizes of dimensions [begin, end).
static int64_t span(ArrayRef<int64_t> shape, int64_t begin, int64_t end) {
  int64_t size = 1;
  for (int64_t dim = begin; dim < end; ++dim)
    size *= shape[dim];
  return size;
}

CollectiveShape AllReduceOp::getCollectiveShape() {
  return {CollectiveShape::Kind::AllReduce, 1, 1, getValueType().getNumElements(), false, getKind()};
}

bool AllReduceOp::canBeInPlace() { return true; }

bool AllReduceOp::isLinear() { return reductionOf(getKind()).isLinear; }
bool ReduceScatterOp::isLinear() { return reductionOf(getKind()).isLinear; }

ArrayRef<int32_t> AllReduceOp::getGroupMembers() { return getMembers().value_or(ArrayRef<int32_t>()); }

CollectiveShape AllGatherOp::getCollectiveShape() {
  ArrayRef<int64_t> piece = shapeOf(getOperand());
  int64_t dim = getDim(), rank = piece.size();
  return {CollectiveShape::Kind::AllGather, span(piece, 0, dim), 1, span(piece, dim, rank)};
}

CollectiveShape ReduceScatterOp::getCollectiveShape() {
  ArrayRef<int64_t> piece = getValueType().getShape();
  int64_t dim = getDim(), rank = piece.size();
  return {CollectiveShape::Kind::ReduceScatter, span(piece, 0, dim), 1, span(piece, dim, rank), false, getKind()};
}

CollectiveShape AllToAllOp::getCollectiveShape() {
  ArrayRef<int64_t> whole = shapeOf(getOperand()), piece = getValueType().getShape();
  int64_t split = getSplitDim(), concat = getConcatDim(), rank = whole.size();
  // The split dimension's local size is the result's, the concatenated one's the operand's.
  if (split < concat)
    return {CollectiveShape::Kind::AllToAll, span(whole, 0, split), piece[split] * span(whole, split + 1, concat),
            span(whole, concat, rank), true};
  return {CollectiveShape::Kind::AllToAll, span(whole, 0, concat), whole[concat] * span(whole, concat + 1, split),
          piece[split] * span(whole, split + 1, rank), false};
}
