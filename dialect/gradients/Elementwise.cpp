// Derivatives of elementwise operations, as a table.
//
// Each is written in whichever of operand and result costs least to keep until the backward pass: the result where the
// derivative is a polynomial of it, the operand where the operand is kept anyway. gelu and silu read their operand
// only: a chain of cheap operations replaces a saved tensor.
#include "dialect/IR/Expression.h"

#include <numbers>

using namespace mlir;
using namespace mlir::dt;

using Gradients = SmallVectorImpl<Value>;

/// d operand = g * derivative(x, y), where y = op(x). Computed in f32 and rounded once: constants of the formulas would
/// lose digits in 16 bits.
template <typename UnaryOp, typename Derivative>
static LogicalResult chain(UnaryOp op, OpBuilder &builder, ValueRange g, Gradients &out, Derivative derivative) {
  Expr x(builder, op.getLoc(), op.getOperand()), y = x.with(op.getResult()), gradient = x.with(g[0]);
  // Widening both costs nothing where the formula does not read them: dead conversions are erased.
  out.push_back((gradient.widened() * derivative(x.widened(), y.widened())).as(x.getType().getElementType()));
  return success();
}

LogicalResult NegOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(-Expr(builder, getLoc(), g[0]));
  return success();
}

LogicalResult ExpOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return y; });
}

LogicalResult LogOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(DivOp::create(builder, getLoc(), g[0], getOperand()));
  return success();
}

LogicalResult SqrtOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return 0.5 / y; });
}

LogicalResult RsqrtOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return -0.5 * (y * square(y)); });
}

LogicalResult TanhOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return 1.0 - square(y); });
}

LogicalResult ErfOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return (2 * std::numbers::inv_sqrtpi) * exp(-square(x)); });
}

LogicalResult LogisticOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) { return y * (1.0 - y); });
}

LogicalResult GeluOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.push_back(GeluGradOp::create(builder, getLoc(), g[0], getOperand(), getTanh()));
  return success();
}

/// d/dx x σ(x) = σ(x) (1 + x (1 - σ(x))).
LogicalResult SiluOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  return chain(*this, builder, g, out, [](Expr x, Expr y) {
    Expr sigma = logistic(x);
    return sigma * (1.0 + x * (1.0 - sigma));
  });
}

LogicalResult AddOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.append({g[0], g[0]});
  return success();
}

LogicalResult SubOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  out.append({g[0], -Expr(builder, getLoc(), g[0])});
  return success();
}

/// A factor for use in the backward pass. An activation saves only its operand, so its result is recomputed rather than
/// kept: for SwiGLU's silu(gate) * up this saves one tensor.
static Value reread(OpBuilder &builder, Value value) {
  Operation *producer = value.getDefiningOp();
  return isa_and_nonnull<SiluOp, GeluOp>(producer) ? builder.clone(*producer)->getResult(0) : value;
}

LogicalResult MulOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  Expr gradient(builder, getLoc(), g[0]);
  out.push_back(gradient * gradient.with(reread(builder, getRhs())));
  out.push_back(gradient * gradient.with(reread(builder, getLhs())));
  return success();
}

/// d lhs = g / rhs, d rhs = -g lhs / rhs².
LogicalResult DivOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  Expr gradient(builder, getLoc(), g[0]);
  Expr ofLhs = gradient / gradient.with(getRhs());
  out.append({ofLhs, -(ofLhs * gradient.with(getResult()))});
  return success();
}

static LogicalResult refuse(Operation *op, StringRef why) {
  return op->emitOpError("cannot be differentiated: ") << why;
}

LogicalResult MaxOp::buildGradient(OpBuilder &, ValueRange, Gradients &) {
  return refuse(*this, "no gradient is defined for the maximum; write it as a select");
}

LogicalResult MinOp::buildGradient(OpBuilder &, ValueRange, Gradients &) {
  return refuse(*this, "no gradient is defined for the minimum; write it as a select");
}

LogicalResult GeluGradOp::buildGradient(OpBuilder &, ValueRange, Gradients &) {
  return refuse(*this, "it is a gradient, and second derivatives are not formed");
}

// Masks have no gradient, so none ever arrives at these.
LogicalResult AndOp::buildGradient(OpBuilder &, ValueRange, Gradients &out) {
  out.append(2, Value());
  return success();
}

LogicalResult CompareOp::buildGradient(OpBuilder &, ValueRange, Gradients &out) {
  out.append(2, Value());
  return success();
}

LogicalResult SelectOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  Expr gradient(builder, getLoc(), g[0]), mask = gradient.with(getMask()), zero = gradient.splat(0);
  out.append({Value(), mask.select(gradient, zero), mask.select(zero, gradient)});
  return success();
}

/// Back to the operand's type. Rounding is taken for the identity that it approximates; integers and masks have no
/// gradient.
LogicalResult ConvertOp::buildGradient(OpBuilder &builder, ValueRange g, Gradients &out) {
  auto isReal = [](Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); };
  if (getOperand().getType() == getType())
    out.push_back(g[0]);
  else if (isReal(getOperand()) && isReal(getResult()))
    out.push_back(ConvertOp::create(builder, getLoc(), getOperand().getType(), g[0]));
  else
    out.push_back(Value());
  return success();
}
