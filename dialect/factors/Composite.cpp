// Factors of the composites that are not decomposed: rotary embedding and attention.
#include "dialect/factors/Support.h"

using namespace mlir;
using namespace mlir::dt;

// Rotary embedding: pairs lie half a dimension apart, so the last one stays whole.

FactorRule RotaryOp::getFactorRule() {
  FactorRule rule;
  RankedTensorType type = tensorType(getOperand());
  DimFactors dims;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    bool last = static_cast<int64_t>(dim) + 1 == type.getRank();
    FactorKind kind = last ? FactorKind::NeedsReplication : FactorKind::Parallel;
    appendDim(dims, size == 1 ? -1 : rule.addFactor(size, kind), size);
  }
  rule.operands = {dims, DimFactors{dims[1]}};
  rule.results = {dims};
  return rule;
}

Linearity RotaryOp::getLinearity(unsigned operand) {
  return operand == 0 ? Linearity::Multilinear : Linearity::Nonlinear;
}

// Attention. Query rows, batches, groups and heads are independent; each needs all keys of its group and whole heads.

namespace {
/// The factors of q [B,S,G,R,E] and k [B,T,G,E] as dimensions of any tensor of an attention.
struct AttentionFactors {
  FactorRule rule;
  SmallVector<int, 1> b, s, t, g, r, e, key;

  /// `reduced`: query rows and heads are summed over in the gradients of k and v.
  AttentionFactors(RankedTensorType q, RankedTensorType k, bool reduced) {
    FactorKind query = reduced ? FactorKind::Reduction : FactorKind::Parallel;
    b = make(q.getDimSize(0), FactorKind::Parallel);
    s = make(q.getDimSize(1), query);
    g = make(q.getDimSize(2), FactorKind::Parallel);
    r = make(q.getDimSize(3), query);
    e = make(q.getDimSize(4), FactorKind::NeedsReplication);
    t = make(k.getDimSize(1), FactorKind::NeedsReplication);
    key = make(4, FactorKind::NeedsReplication);
    // q, k, v, query positions, key positions, key
    rule.operands = {queries(), keys(), keys(), {s}, {t}, {key}};
  }
  DimFactors queries() const { return {b, s, g, r, e}; }
  DimFactors keys() const { return {b, t, g, e}; }
  DimFactors starts() const { return {b, s}; }
  DimFactors rows() const { return {b, g, r, s}; }

private:
  SmallVector<int, 1> make(int64_t size, FactorKind kind) {
    return size == 1 ? SmallVector<int, 1>() : SmallVector<int, 1>{rule.addFactor(size, kind)};
  }
};

/// Dropout is drawn by an element's place in the whole, which follows from the placement of q's dimensions.
template <typename Op>
Operation *buildLocalAttention(Op op, OpBuilder &builder, ValueRange operands, TypeRange results,
                               ShardingAttr querySharding) {
  auto local = cast<Op>(cloneOnto(op.getOperation(), builder, operands, results));
  if (!querySharding.withoutPartial().isReplicated())
    local.setShardingAttr(querySharding.withoutPartial());
  return local;
}
} // namespace

FactorRule AttentionOp::getFactorRule() {
  AttentionFactors factors(tensorType(getQ()), tensorType(getK()), /*reduced=*/false);
  if (getStarts())
    factors.rule.operands.push_back(factors.starts());
  factors.rule.results = {factors.queries(), factors.rows()};
  return factors.rule;
}

Linearity AttentionOp::getLinearity(unsigned) { return Linearity::Nonlinear; }

Operation *AttentionOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results,
                                   ArrayRef<ShardingAttr> operandShardings, ArrayRef<ShardingAttr>) {
  return buildLocalAttention(*this, builder, operands, results, operandShardings[0]);
}

FactorRule AttentionGradOp::getFactorRule() {
  AttentionFactors factors(tensorType(getQ()), tensorType(getK()), /*reduced=*/true);
  llvm::append_values(factors.rule.operands, factors.queries(), factors.rows(), factors.queries());
  if (getStarts())
    factors.rule.operands.push_back(factors.starts());
  factors.rule.results = {factors.queries(), factors.keys(), factors.keys()};
  return factors.rule;
}

/// All three gradients are linear in the output's gradient.
Linearity AttentionGradOp::getLinearity(unsigned operand) {
  return getOperation()->getOperand(operand) == getDOut() && operand == getDOutMutable().getOperandNumber()
             ? Linearity::Multilinear
             : Linearity::Nonlinear;
}

Operation *AttentionGradOp::buildLocal(OpBuilder &builder, ValueRange operands, TypeRange results,
                                       ArrayRef<ShardingAttr> operandShardings, ArrayRef<ShardingAttr>) {
  return buildLocalAttention(*this, builder, operands, results, operandShardings[0]);
}
