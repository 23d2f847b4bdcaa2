// Factors of constants and of the operations that move, select or reduce elements.
#include "dialect/IR/Reductions.h"
#include "dialect/factors/Support.h"

#include <numeric>

using namespace mlir;
using namespace mlir::dt;

// Values without operands

FactorRule ConstantOp::getFactorRule() {
  FactorRule rule;
  FactorKind kind = getSplat() ? FactorKind::Parallel : FactorKind::NeedsReplication;
  rule.results.push_back(addFactorPerDim(rule, tensorType(getResult()), kind));
  return rule;
}

Operation *ConstantOp::buildLocal(OpBuilder &builder, ValueRange, TypeRange results, ArrayRef<ShardingAttr>,
                                  ArrayRef<ShardingAttr>) {
  auto type = cast<RankedTensorType>(results[0]);
  Operation *clone = builder.clone(*getOperation());
  if (type != getType()) {
    // A piece of a splat is a smaller splat; other constants are never split.
    auto splat = cast<DenseElementsAttr>(getValue());
    cast<ConstantOp>(clone).setValueAttr(splat.resizeSplat(type));
    clone->getResult(0).setType(type);
  }
  return clone;
}

FactorRule IotaOp::getFactorRule() {
  FactorRule rule;
  rule.results.push_back(addFactorPerDim(rule, getType()));
  return rule;
}

Operation *IotaOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results, ArrayRef<ShardingAttr>,
                              ArrayRef<ShardingAttr> resultShardings) {
  auto local = cast<IotaOp>(cloneOnto(getOperation(), builder, operands, results));
  if (!resultShardings[0].getDimAxes(getDim()).empty())
    local.setShardingAttr(resultShardings[0]);
  return local;
}

FactorRule RandomOp::getFactorRule() {
  FactorRule rule;
  rule.operands.push_back(addFactorPerDim(rule, tensorType(getKey()), FactorKind::NeedsReplication));
  rule.results.push_back(addFactorPerDim(rule, tensorType(getResult())));
  return rule;
}

Operation *RandomOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results, ArrayRef<ShardingAttr>,
                                ArrayRef<ShardingAttr> resultShardings) {
  auto local = cast<RandomOp>(cloneOnto(getOperation(), builder, operands, results));
  if (!resultShardings[0].isReplicated())
    local.setShardingAttr(resultShardings[0].withoutPartial());
  return local;
}

// Movement

/// The factors of these dimensions, in their order.
static DimFactors chosen(const DimFactors &factors, ArrayRef<int64_t> dims) {
  DimFactors result;
  for (int64_t dim : dims)
    result.push_back(factors[dim]);
  return result;
}

FactorRule BroadcastOp::getFactorRule() {
  FactorRule rule;
  rule.results.push_back(addFactorPerDim(rule, tensorType(getResult())));
  rule.operands.push_back(chosen(rule.results[0], getDims()));
  return rule;
}

Linearity BroadcastOp::getLinearity(unsigned) { return Linearity::Multilinear; }

FactorRule TransposeOp::getFactorRule() {
  FactorRule rule;
  rule.operands.push_back(addFactorPerDim(rule, tensorType(getOperand())));
  rule.results.push_back(chosen(rule.operands[0], getPermutation()));
  return rule;
}

Linearity TransposeOp::getLinearity(unsigned) { return Linearity::Multilinear; }

namespace {
/// One side of a reshape, walked from the major end: the dimension reached and what is left of its size.
struct ReshapeSide {
  ArrayRef<int64_t> shape;
  DimFactors dims;
  size_t dim = 0;
  int64_t rest = 1;

  explicit ReshapeSide(ArrayRef<int64_t> shape) : shape(shape), dims(shape.size()) {
    if (!shape.empty())
      rest = shape[0];
    skipFinished();
  }
  bool done() const { return dim == shape.size(); }
  void skipFinished() {
    while (!done() && rest == 1)
      rest = ++dim < shape.size() ? shape[dim] : 1;
  }
  void take(int factor, int64_t size) {
    dims[dim].push_back(factor);
    rest /= size;
    skipFinished();
  }
};
} // namespace

/// Both sides are walked from the major end, and what both begin with is a factor. Where nothing is common (as for 2x3
/// and 3x2) the dimensions stay whole until the products agree again.
FactorRule ReshapeOp::getFactorRule() {
  FactorRule rule;
  ReshapeSide operand(tensorType(getOperand()).getShape()), result(tensorType(getResult()).getShape());
  while (!operand.done() && !result.done()) {
    int64_t common = std::gcd(operand.rest, result.rest);
    if (common > 1) {
      int factor = rule.addFactor(common);
      operand.take(factor, common);
      result.take(factor, common);
      continue;
    }
    int64_t operandProduct = 1, resultProduct = 1;
    do {
      bool behind = operandProduct <= resultProduct;
      ReshapeSide &side = behind ? operand : result;
      (behind ? operandProduct : resultProduct) *= side.rest;
      side.take(rule.addFactor(side.rest, FactorKind::NeedsReplication), side.rest);
    } while (operandProduct != resultProduct && !(operand.done() && result.done()));
  }
  rule.operands.push_back(std::move(operand.dims));
  rule.results.push_back(std::move(result.dims));
  return rule;
}

Linearity ReshapeOp::getLinearity(unsigned) { return Linearity::Multilinear; }

/// The identity: each dimension is the operand's.
static FactorRule identityRule(Value result) {
  FactorRule rule;
  DimFactors dims = addFactorPerDim(rule, tensorType(result));
  rule.operands.push_back(dims);
  rule.results.push_back(dims);
  return rule;
}

FactorRule TagOp::getFactorRule() { return identityRule(getResult()); }

Linearity TagOp::getLinearity(unsigned) { return Linearity::Multilinear; }

FactorRule BarrierOp::getFactorRule() { return identityRule(getResult()); }

Linearity BarrierOp::getLinearity(unsigned) { return Linearity::Multilinear; }

/// No placement passes through: each side has its own.
FactorRule ReshardOp::getFactorRule() {
  FactorRule rule;
  rule.operands.push_back(addFactorPerDim(rule, tensorType(getOperand()), FactorKind::NeedsReplication));
  rule.results.push_back(addFactorPerDim(rule, tensorType(getResult()), FactorKind::NeedsReplication));
  return rule;
}

// Boxes: a dimension passes through where the box spans it and must be whole elsewhere.

static FactorRule boxRule(RankedTensorType operand, RankedTensorType result) {
  FactorRule rule;
  DimFactors operandDims, resultDims;
  for (auto [from, to] : llvm::zip_equal(operand.getShape(), result.getShape())) {
    if (from == to) {
      int factor = from == 1 ? -1 : rule.addFactor(from);
      appendDim(operandDims, factor, from);
      appendDim(resultDims, factor, to);
      continue;
    }
    appendDim(operandDims, from == 1 ? -1 : rule.addFactor(from, FactorKind::NeedsReplication), from);
    appendDim(resultDims, to == 1 ? -1 : rule.addFactor(to, FactorKind::NeedsReplication), to);
  }
  rule.operands.push_back(std::move(operandDims));
  rule.results.push_back(std::move(resultDims));
  return rule;
}

FactorRule SliceOp::getFactorRule() { return boxRule(tensorType(getOperand()), tensorType(getResult())); }
Linearity SliceOp::getLinearity(unsigned) { return Linearity::Multilinear; }

FactorRule PadOp::getFactorRule() { return boxRule(tensorType(getOperand()), tensorType(getResult())); }
Linearity PadOp::getLinearity(unsigned) { return Linearity::Multilinear; }

FactorRule ConcatOp::getFactorRule() {
  FactorRule rule;
  auto along = static_cast<int64_t>(getDim());
  rule.results.push_back(DimFactors());
  for (auto [dim, size] : llvm::enumerate(tensorType(getResult()).getShape())) {
    FactorKind kind = static_cast<int64_t>(dim) == along ? FactorKind::NeedsReplication : FactorKind::Parallel;
    appendDim(rule.results[0], size == 1 ? -1 : rule.addFactor(size, kind), size);
  }
  for (Value operand : getOperands()) {
    DimFactors dims = rule.results[0];
    RankedTensorType type = tensorType(operand);
    if (type.getRank() < getType().getRank()) {
      dims.erase(dims.begin() + along);
    } else {
      dims[along].clear();
      if (int64_t size = type.getDimSize(along); size != 1)
        dims[along].push_back(rule.addFactor(size, FactorKind::NeedsReplication));
    }
    rule.operands.push_back(std::move(dims));
  }
  return rule;
}

Linearity ConcatOp::getLinearity(unsigned) { return Linearity::Additive; }

// Reductions

FactorRule ReduceOp::getFactorRule() {
  FactorRule rule;
  DimFactors operand, result;
  for (auto [dim, size] : llvm::enumerate(tensorType(getOperand()).getShape())) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(dim));
    int factor =
        size == 1 ? -1 : rule.addFactor(size, reduced ? FactorKind::Reduction : FactorKind::Parallel, getKind());
    appendDim(operand, factor, size);
    if (!reduced)
      appendDim(result, factor, size);
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  return rule;
}

Linearity ReduceOp::getLinearity(unsigned) {
  return reductionOf(getKind()).isLinear ? Linearity::Multilinear : Linearity::Nonlinear;
}

FactorRule ContractOp::getFactorRule() {
  FactorRule rule;
  auto [inputs, output] = getSpec().split("->");
  auto [lhs, rhs] = inputs.split(',');
  std::array<int, 256> factorOf;
  factorOf.fill(-1);
  auto dimsOf = [&](StringRef letters, RankedTensorType type) {
    DimFactors dims;
    for (auto [letter, size] : llvm::zip_equal(letters, type.getShape())) {
      int &factor = factorOf[static_cast<unsigned char>(letter)];
      if (factor < 0 && size != 1)
        factor = rule.addFactor(size, output.contains(letter) ? FactorKind::Parallel : FactorKind::Reduction);
      appendDim(dims, factor, size);
    }
    return dims;
  };
  rule.operands.push_back(dimsOf(lhs, tensorType(getLhs())));
  rule.operands.push_back(dimsOf(rhs, tensorType(getRhs())));
  rule.results.push_back(dimsOf(output, tensorType(getResult())));
  return rule;
}

Linearity ContractOp::getLinearity(unsigned) { return Linearity::Multilinear; }

// Tables

/// Rows of a gathered table: pieces skip the indices that are not theirs, so that split rows make partial sums.
FactorRule GatherOp::getFactorRule() {
  FactorRule rule;
  RankedTensorType table = tensorType(getTable());
  DimFactors indices = addFactorPerDim(rule, tensorType(getIndices()));
  int row = rule.addFactor(table.getDimSize(0), FactorKind::Reduction);
  int column = rule.addFactor(table.getDimSize(1));
  DimFactors tableDims, result = indices;
  appendDim(tableDims, row, table.getDimSize(0));
  appendDim(tableDims, column, table.getDimSize(1));
  appendDim(result, column, table.getDimSize(1));
  rule.operands = {tableDims, indices};
  rule.results = {result};
  return rule;
}

Linearity GatherOp::getLinearity(unsigned operand) {
  return operand == 0 ? Linearity::Multilinear : Linearity::Nonlinear;
}

/// A clone that knows how the rows of its table are split, where they are.
template <typename TableOp>
static Operation *cloneWithTable(TableOp op, OpBuilder &builder, ValueRange operands, TypeRange results,
                                 ShardingAttr table) {
  auto local = cast<TableOp>(cloneOnto(op.getOperation(), builder, operands, results));
  if (!table.getDimAxes(0).empty())
    local.setShardingAttr(table.withoutPartial());
  return local;
}

Operation *GatherOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results,
                                ArrayRef<ShardingAttr> operandShardings, ArrayRef<ShardingAttr>) {
  return cloneWithTable(*this, builder, operands, results, operandShardings[0]);
}

/// The updates' own dimensions are summed into the rows: where they are split, the result is partial.
FactorRule ScatterAddOp::getFactorRule() {
  FactorRule rule;
  RankedTensorType table = tensorType(getInit());
  DimFactors indices = addFactorPerDim(rule, tensorType(getIndices()), FactorKind::Reduction);
  DimFactors tableDims = addFactorPerDim(rule, table);
  DimFactors updates = indices;
  updates.push_back(tableDims[1]);
  rule.operands = {tableDims, indices, updates};
  rule.results = {tableDims};
  return rule;
}

Linearity ScatterAddOp::getLinearity(unsigned operand) {
  return operand == 1 ? Linearity::Nonlinear : Linearity::Additive;
}

Operation *ScatterAddOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results, ArrayRef<ShardingAttr>,
                                    ArrayRef<ShardingAttr> resultShardings) {
  return cloneWithTable(*this, builder, operands, results, resultShardings[0]);
}

/// A row may go anywhere along dimension 1, so this dimension is whole on both sides; the others are independent.
FactorRule WriteRowsOp::getFactorRule() {
  FactorRule rule;
  RankedTensorType init = tensorType(getInit()), rows = tensorType(getRows());
  DimFactors whole, part, positions;
  for (auto [dim, size] : llvm::enumerate(init.getShape())) {
    FactorKind kind = dim == 1 ? FactorKind::NeedsReplication : FactorKind::Parallel;
    int factor = size == 1 ? -1 : rule.addFactor(size, kind);
    appendDim(whole, factor, size);
    if (dim != 1) {
      appendDim(part, factor, size);
      continue;
    }
    int64_t count = rows.getDimSize(1);
    int row = count == 1 ? -1 : rule.addFactor(count, kind);
    appendDim(part, row, count);
    appendDim(positions, row, count);
  }
  rule.operands = {whole, part, positions};
  rule.results = {whole};
  return rule;
}

Linearity WriteRowsOp::getLinearity(unsigned) { return Linearity::Nonlinear; }
