// Gradients of the composites.
#include "dialect/IR/Expression.h"

using namespace mlir;
using namespace mlir::dt;

using Gradients = SmallVectorImpl<Value>;

/// Refuses a gradient for results that exist only to be read by the gradient itself.
static LogicalResult requireNone(Operation *op, ValueRange gradients, ArrayRef<StringRef> names) {
  for (auto [gradient, name] : llvm::zip(gradients, names))
    if (gradient)
      return op->emitOpError("has no gradient through its result '") << name << "'";
  return success();
}

/// Mean over the last dimension, in every element of the row.
static Expr rowMean(Expr x) {
  int64_t last = x.getRank() - 1;
  return alongRows(x.sum({last}) * (1.0 / static_cast<double>(x.getShape()[last])), x);
}

/// With n = (x - mean) rstd and h = g scale: dx = rstd (h - mean(h) - n mean(h n)), dscale = Σ g n, dbias = Σ g.
LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ValueRange gs, Gradients &out) {
  if (failed(requireNone(*this, gs.drop_front(), {"mean", "rstd"})))
    return failure();
  if (!gs[0]) {
    out.append(3, Value());
    return success();
  }
  Expr g(builder, getLoc(), gs[0]), x = g.with(getOperand());
  Expr rstd = alongRows(g.with(getRstd()), x);
  Expr n = (x - alongRows(g.with(getMean()), x)) * rstd;
  Expr h = g * overRows(g.with(getScale()), g);
  SmallVector<int64_t> rows = leadingDims(g.getRank());
  out.append({rstd * (h - rowMean(h) - n * rowMean(h * n)), (g * n).sum(rows), g.sum(rows)});
  return success();
}

/// With n = x rstd and h = g scale: dx = rstd (h - n mean(h n)), dscale = Σ g n.
LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ValueRange gs, Gradients &out) {
  if (failed(requireNone(*this, gs.drop_front(), {"rstd"})))
    return failure();
  if (!gs[0]) {
    out.append(2, Value());
    return success();
  }
  Expr g(builder, getLoc(), gs[0]), x = g.with(getOperand());
  Expr rstd = alongRows(g.with(getRstd()), x);
  Expr n = x * rstd;
  Expr h = g * overRows(g.with(getScale()), g);
  out.append({rstd * (h - n * rowMean(h * n)), (g * n).sum(leadingDims(g.getRank()))});
  return success();
}

/// With p = exp(logits - lse), the softmax, and a the gradient of nll where the target counts:
/// dlogits = p (a + dlse) - onehot(target) a.
LogicalResult SoftmaxCrossEntropyOp::buildGradient(OpBuilder &builder, ValueRange gs, Gradients &out) {
  Expr logits(builder, getLoc(), getLogits()), targets = logits.with(getTargets()), lse = logits.with(getLse());
  Expr p = exp(logits - alongRows(lse, logits));
  if (!gs[0]) {
    out.append({p * alongRows(lse.with(gs[1]), logits), Value()});
    return success();
  }
  Expr counts = targets.compare(CompareDirection::NE, targets.splat(getIgnoreIndexAttr().getInt()));
  Expr ofNll = counts.select(lse.with(gs[0]), lse.splat(0));
  int64_t last = logits.getRank() - 1;
  auto indexType = logits.typeWith(builder.getI32Type());
  Expr column = logits.with(IotaOp::create(builder, getLoc(), indexType, last, nullptr));
  Expr isTarget = column.compare(CompareDirection::EQ, alongRows(targets, logits));
  Expr ofBoth = gs[1] ? ofNll + lse.with(gs[1]) : ofNll;
  Expr taken = isTarget.select(alongRows(ofNll, logits), logits.splat(0));
  out.append({p * alongRows(ofBoth, logits) - taken, Value()});
  return success();
}

LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.append({DropoutOp::create(builder, getLoc(), g[0], getKey(), getRateAttr(), getSiteAttr()), Value()});
  return success();
}

/// A rotation's transpose turns the other way.
LogicalResult RotaryOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  UnitAttr turned = getInverse() ? UnitAttr() : builder.getUnitAttr();
  out.append({RotaryOp::create(builder, getLoc(), g[0], getPositions(), getThetaAttr(), getPairsAttr(),
                               getScalingAttr(), turned),
              Value()});
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ValueRange gs, Gradients &out) {
  if (failed(requireNone(*this, gs.drop_front(), {"lse"})))
    return failure();
  if (!gs[0]) {
    out.append(getOperation()->getNumOperands(), Value());
    return success();
  }
  auto gradient = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(), getQ(), getK(), getV(), getQPositions(),
      getKPositions(), getKey(), getOut(), getLse(), gs[0], getStarts(), getScaleAttr(), getCausalAttr(),
      getDropoutAttr(), getSiteAttr(), getGlobalShapeAttr(), getWindowAttr(), getSoftcapAttr(), getShardingAttr());
  out.append({gradient.getDQ(), gradient.getDK(), gradient.getDV()});
  out.append(getOperation()->getNumOperands() - out.size(), Value()); // positions, key and starts have none
  return success();
}

LogicalResult AttentionGradOp::buildGradient(OpBuilder &, ValueRange, Gradients &) {
  return emitOpError("cannot be differentiated: second derivatives of attention are not defined");
}
