// Code of the elementwise operations: arith and math operations on scalars or vectors. The same code serves every
// target; math operations are approximated, or called, as the target prefers.
//
// Multiplications and additions carry the contract flag (a * b + c may be rounded once) and divisions arcp (a divisor
// that does not vary may become a factor), but no operation a flag that assumes values away: NaN and infinity behave as
// IEEE 754 says, so that the check for non-finite values sees them.
#include "dialect/IR/KernelCode.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numbers>

using namespace mlir;
using namespace mlir::dt;

namespace {

/// Builds floating-point code of one type.
class FloatCode {
public:
  FloatCode(OpBuilder &builder, Location loc, Type type)
      : builder(builder), loc(loc), type(type),
        contract(arith::FastMathFlagsAttr::get(builder.getContext(), arith::FastMathFlags::contract)) {}

  Value constant(double value) {
    Type element = getElementTypeOrSelf(type);
    TypedAttr attr = FloatAttr::get(element, value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(builder, loc, attr);
  }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b, contract); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b, contract); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b, contract); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value neg(Value a) { return arith::NegFOp::create(builder, loc, a); }
  Value exp(Value a) { return math::ExpOp::create(builder, loc, a); }
  Value erf(Value a) { return math::ErfOp::create(builder, loc, a); }
  /// constant + linear a.
  Value polynomial(Value a, double constantTerm, double linear) {
    return add(mul(a, constant(linear)), constant(constantTerm));
  }
  /// a / (1 + exp(-b)): a times the logistic function of b.
  Value timesLogistic(Value a, Value b) { return div(a, add(constant(1), exp(neg(b)))); }

private:
  OpBuilder &builder;
  Location loc;
  Type type;
  arith::FastMathFlagsAttr contract;
};

bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

/// A binary operation with one form for floating point, which may have flags, and one for integers (masks among them).
template <typename FloatOp, typename IntegerOp, typename... Flags>
Value emitBinary(OpBuilder &builder, Location loc, ValueRange operands, Flags... flags) {
  if (isFloat(operands[0]))
    return FloatOp::create(builder, loc, operands[0], operands[1], flags...);
  return IntegerOp::create(builder, loc, operands[0], operands[1]);
}

} // namespace

Value NegOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return arith::NegFOp::create(builder, loc, operands[0]);
}

// These have their names in the math dialect, too.
#define DT_EMIT_MATH(Op)                                                                                               \
  Value Op::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {                                 \
    return math::Op::create(builder, loc, operands[0]);                                                                \
  }
DT_EMIT_MATH(ExpOp)
DT_EMIT_MATH(LogOp)
DT_EMIT_MATH(SqrtOp)
DT_EMIT_MATH(TanhOp)
DT_EMIT_MATH(ErfOp)
#undef DT_EMIT_MATH

Value RsqrtOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  // Two correctly rounded operations: the hardware's estimate has only 12 or 14 bits.
  FloatCode code(builder, loc, type);
  return code.div(code.constant(1), math::SqrtOp::create(builder, loc, operands[0]));
}

Value LogisticOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  FloatCode code(builder, loc, type);
  return code.timesLogistic(code.constant(1), operands[0]);
}

Value SiluOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  return FloatCode(builder, loc, type).timesLogistic(operands[0], operands[0]);
}

/// The logistic function of 2u, u = √(2/π) (x + 0.044715 x³), is (1 + tanh(u)) / 2 and spares the hyperbolic tangent.
static constexpr double geluCubic = 0.044715;
static const double twiceGeluScale = 2 * std::sqrt(2 / std::numbers::pi);

Value dt::emitTanhGelu(OpBuilder &builder, Location loc, Value x) {
  FloatCode code(builder, loc, x.getType());
  Value factor = code.polynomial(code.mul(x, x), twiceGeluScale, twiceGeluScale * geluCubic);
  return code.timesLogistic(x, code.mul(x, factor));
}

Value GeluOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  FloatCode code(builder, loc, type);
  Value x = operands[0];
  if (getTanh())
    return emitTanhGelu(builder, loc, x);
  Value erf = code.erf(code.mul(x, code.constant(std::numbers::sqrt2 / 2)));
  Value half = code.mul(x, code.constant(0.5));
  return code.add(half, code.mul(half, erf));
}

/// With s the logistic function of 2u: s + x s (1 - s) d(2u)/dx.
Value dt::emitTanhGeluDerivative(OpBuilder &builder, Location loc, Value x) {
  FloatCode code(builder, loc, x.getType());
  Value square = code.mul(x, x), one = code.constant(1);
  Value twiceU = code.mul(x, code.polynomial(square, twiceGeluScale, twiceGeluScale * geluCubic));
  Value s = code.timesLogistic(one, twiceU);
  Value slope = code.mul(x, code.polynomial(square, twiceGeluScale, 3 * twiceGeluScale * geluCubic));
  return code.add(s, code.mul(code.mul(s, code.sub(one, s)), slope));
}

/// Φ(x) + x φ(x).
static Value erfGeluDerivative(FloatCode code, Value x) {
  Value half = code.constant(0.5);
  Value cumulative = code.add(half, code.mul(half, code.erf(code.mul(x, code.constant(std::numbers::sqrt2 / 2)))));
  Value density = code.mul(code.exp(code.mul(code.constant(-0.5), code.mul(x, x))),
                           code.constant(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  return code.add(cumulative, code.mul(x, density));
}

Value GeluGradOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  FloatCode code(builder, loc, type);
  Value x = operands[1];
  return code.mul(operands[0], getTanh() ? emitTanhGeluDerivative(builder, loc, x) : erfGeluDerivative(code, x));
}

/// By f32 units of the result, and by how the error of 2u, a few of its own units, moves the exponential. The last term
/// is the reference's: far out its 1 + tanh(u) cancels.
double GeluOp::getCodeError(ArrayRef<double> operands, double result) {
  double x = operands[0];
  if (!getTanh())
    return std::abs(x) * 0x1p-21;
  double twiceU = twiceGeluScale * x * (1 + geluCubic * x * x);
  return std::abs(result) * (1 + std::abs(twiceU)) * 0x1p-21 + std::abs(x) * 0x1p-52;
}

/// The largest of the terms is about x s (1 - s) d(2u)/dx < 2, whatever x.
double GeluGradOp::getCodeError(ArrayRef<double> operands, double) { return std::abs(operands[0]) * 0x1p-18; }

/// Near 1 the logarithm cancels.
double LogOp::getCodeError(ArrayRef<double>, double result) { return std::abs(result) * 0x1p-21 + 2e-8; }

Value AddOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return emitBinary<arith::AddFOp, arith::AddIOp>(builder, loc, operands, arith::FastMathFlags::contract);
}

Value SubOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return emitBinary<arith::SubFOp, arith::SubIOp>(builder, loc, operands, arith::FastMathFlags::contract);
}

Value MulOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return emitBinary<arith::MulFOp, arith::MulIOp>(builder, loc, operands, arith::FastMathFlags::contract);
}

Value DivOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  // A divisor that a whole row shares may become a factor: softmax divides by its row's sum.
  return emitBinary<arith::DivFOp, arith::DivSIOp>(builder, loc, operands, arith::FastMathFlags::arcp);
}

Value MaxOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(builder, loc, operands);
}

Value MinOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return emitBinary<arith::MinimumFOp, arith::MinSIOp>(builder, loc, operands);
}

Value AndOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return arith::AndIOp::create(builder, loc, operands[0], operands[1]);
}

Value CompareOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  // Ordered comparisons are false when an operand is NaN; "ne" is the negation of "eq" and thus true.
  struct Predicates {
    arith::CmpFPredicate real;
    arith::CmpIPredicate integer;
  };
  using Real = arith::CmpFPredicate;
  using Integer = arith::CmpIPredicate;
  static constexpr Predicates ofDirections[] = {{Real::OEQ, Integer::eq},  {Real::UNE, Integer::ne},
                                                {Real::OLT, Integer::slt}, {Real::OLE, Integer::sle},
                                                {Real::OGT, Integer::sgt}, {Real::OGE, Integer::sge}};
  const Predicates &predicates = ofDirections[static_cast<size_t>(getDirection())]; // EQ, NE, LT, LE, GT, GE
  if (isFloat(operands[0]))
    return arith::CmpFOp::create(builder, loc, predicates.real, operands[0], operands[1]);
  return arith::CmpIOp::create(builder, loc, predicates.integer, operands[0], operands[1]);
}

Value SelectOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type) {
  return arith::SelectOp::create(builder, loc, operands[0], operands[1], operands[2]);
}

Value ConvertOp::emitElement(OpBuilder &builder, Location loc, ValueRange operands, Type type) {
  Value x = operands[0];
  Type from = getElementTypeOrSelf(x.getType()), to = getElementTypeOrSelf(type);
  if (from == to)
    return x;
  if (to.isInteger(1)) { // a mask: whether the value differs from zero
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(x.getType()));
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, x, zero);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, x, zero);
  }
  if (from.isInteger(1)) {
    if (isa<FloatType>(to))
      return arith::UIToFPOp::create(builder, loc, type, x);
    return arith::ExtUIOp::create(builder, loc, type, x);
  }
  if (isa<FloatType>(to))
    return arith::SIToFPOp::create(builder, loc, type, x);
  return arith::FPToSIOp::create(builder, loc, type, x); // towards zero
}
