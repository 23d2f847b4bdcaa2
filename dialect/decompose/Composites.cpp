// Composites as primitives, and what they become in evaluation.
#include "dialect/IR/Expression.h"

using namespace mlir;
using namespace mlir::dt;

/// Mean over the last dimension, which disappears.
static Expr rowMean(Expr x) {
  int64_t last = x.getRank() - 1;
  return x.sum({last}) * (1.0 / static_cast<double>(x.getShape()[last]));
}

/// The variance is taken from the differences to the mean: E[x²] - E[x]² cancels in f32.
SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getOperand());
  Expr mean = rowMean(x);
  Expr centered = x - alongRows(mean, x);
  Expr rstd = rsqrt(rowMean(square(centered)) + getEpsilon().convertToDouble());
  Expr normalized = centered * alongRows(rstd, x);
  return {normalized * overRows(x.with(getScale()), x) + overRows(x.with(getBias()), x), mean, rstd};
}

SmallVector<Value> RmsNormOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getOperand());
  Expr rstd = rsqrt(rowMean(square(x)) + getEpsilon().convertToDouble());
  return {(x * alongRows(rstd, x)) * overRows(x.with(getScale()), x), rstd};
}

/// The log-sum-exp is taken relative to the row's maximum, so no exponential overflows. The target's logit is picked by
/// comparing column numbers, which works on a piece of the vocabulary too: exactly one piece contributes.
SmallVector<Value> SoftmaxCrossEntropyOp::decompose(OpBuilder &builder) {
  Expr logits(builder, getLoc(), getLogits()), targets = logits.with(getTargets());
  int64_t last = logits.getRank() - 1;
  Expr maximum = logits.max({last});
  Expr lse = log(exp(logits - alongRows(maximum, logits)).sum({last})) + maximum;

  auto indexType = logits.typeWith(builder.getI32Type());
  Expr column = logits.with(IotaOp::create(builder, getLoc(), indexType, last, nullptr));
  Expr isTarget = column.compare(CompareDirection::EQ, alongRows(targets, logits));
  Expr picked = isTarget.select(logits, logits.splat(0)).sum({last});

  Expr counts = targets.compare(CompareDirection::NE, targets.splat(getIgnoreIndexAttr().getInt()));
  return {counts.select(lse - picked, lse.splat(0)), lse};
}

SmallVector<Value> DropoutOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getOperand());
  double rate = getRate().convertToDouble();
  // Draws and the factor are f32 whatever x is: the mask must not depend on its type, nor the mean on rounding.
  Expr wide = x.widened();
  Expr draw = wide.apply<RandomOp>(wide.getType(), getKey(), getSite(), x.getShape(), ShardingAttr());
  Expr kept = draw.compare(CompareDirection::GE, draw.splat(rate));
  return {kept.select(wide * (1 / (1 - rate)), wide.splat(0)).as(x.getType().getElementType())};
}

SmallVector<Value> DropoutOp::buildEvaluation(OpBuilder &) { return {getOperand()}; }

SmallVector<Value> AttentionOp::buildEvaluation(OpBuilder &builder) {
  auto clone = cast<AttentionOp>(builder.clone(*getOperation()));
  clone.setDropoutAttr(builder.getF64FloatAttr(0));
  return clone.getResults();
}
