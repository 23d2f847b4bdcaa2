// The coefficients were fitted for this file: minimax by Lawson's reweighted least squares, in f64, of the functions
// that the comments name.
#include "passes/lower/code/MathExpansion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double ln2 = 0.693147180559945309;

/// e to the power of this, and of anything above, is a normal number.
constexpr double smallestNormalExponent = -87.3365;

/// Arithmetic on f32 values (and i32 values of the same shape).
class Code {
public:
  Code(OpBuilder &builder, Location loc, Type type)
      : builder(builder), loc(loc), real(type), integer(builder.getI32Type()) {
    if (auto vector = dyn_cast<VectorType>(type))
      integer = vector.clone(integer);
  }

  Value constant(double value) { return splat(real, builder.getF32FloatAttr(static_cast<float>(value))); }
  Value bits(int32_t value) { return splat(integer, builder.getI32IntegerAttr(value)); }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, loc, a, b, c); }
  Value choose(Value mask, Value a, Value b) { return arith::SelectOp::create(builder, loc, mask, a, b); }
  Value compare(arith::CmpFPredicate predicate, Value a, double b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, constant(b));
  }
  /// NaN stays NaN, since it compares false. One machine instruction.
  Value atMost(Value x, double high) {
    return choose(arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, constant(high), x), constant(high), x);
  }
  /// x limited to [low, high]; NaN stays NaN.
  Value clamp(Value x, double low, double high) {
    x = atMost(x, high);
    return choose(arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, constant(low), x), constant(low), x);
  }
  Value toReal(Value x) { return arith::SIToFPOp::create(builder, loc, real, x); }
  Value asInteger(Value x) { return arith::BitcastOp::create(builder, loc, integer, x); }
  Value asReal(Value x) { return arith::BitcastOp::create(builder, loc, real, x); }
  Value addInteger(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value subInteger(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value shiftRight(Value a, int32_t count) { return arith::ShRSIOp::create(builder, loc, a, bits(count)); }
  Value shiftLeft(Value a, int32_t count) { return arith::ShLIOp::create(builder, loc, a, bits(count)); }
  Value andInteger(Value a, int32_t mask) { return arith::AndIOp::create(builder, loc, a, bits(mask)); }

  /// x 2^n by the instruction of AVX-512, which handles results outside the normal numbers; 0 where `mask` is not set.
  Value scaleMasked(Value x, Value n, Value mask) {
    Value bits = LLVM::BitcastOp::create(builder, loc, builder.getI16Type(), mask);
    Value rounding = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(4)); // as elsewhere
    StringAttr name = builder.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512");
    return LLVM::CallIntrinsicOp::create(builder, loc, real, name, ValueRange{x, n, constant(0), bits, rounding})
        .getResult(0);
  }

  /// c[0] + c[1] x + c[2] x² + ...
  Value polynomial(Value x, ArrayRef<double> c) {
    Value result = constant(c.back());
    for (double coefficient : llvm::reverse(c.drop_back()))
      result = fma(result, x, constant(coefficient));
    return result;
  }

private:
  Value splat(Type type, TypedAttr element) {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(vector, element));
    return arith::ConstantOp::create(builder, loc, element);
  }

  OpBuilder &builder;
  Location loc;
  Type real, integer;
};

/// e^x = 2^n e^r with x = n ln 2 + r and |r| <= ln 2 / 2. Meaningless for large |x|.
struct ReducedExponential {
  Value n;
  Value exponent; ///< n at the position of a number's exponent field
  Value expm1;    ///< e^r - 1
};

ReducedExponential reduceExponential(Code &code, Value x) {
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  Value rounder = code.constant(0x1.8p23);
  Value shifted = code.fma(x, code.constant(1 / ln2), rounder);
  Value n = code.sub(shifted, rounder);
  // ln 2 in two parts: n times the first, of 9 bits, is exact.
  constexpr double high = 0.693359375, low = ln2 - high;
  Value r = code.fma(n, code.constant(-high), x);
  r = code.fma(n, code.constant(-low), r);
  // (e^r - 1 - r) / r², relative error of e^r 3e-9. Evaluated in pairs: processors wait for a chain of multiply-adds
  // rather than for their units.
  Value square = code.mul(r, r);
  Value low2 = code.polynomial(r, {0.49999994, 0.16666515}), high2 = code.polynomial(r, {0.041668456, 0.0083694188});
  Value q = code.fma(code.fma(code.constant(0.0013813145), square, high2), square, low2);
  return {n, code.shiftLeft(code.asInteger(shifted), 23), code.fma(square, q, r)};
}

/// With AVX-512: four instructions fewer than expandExp. Above the range the polynomial, of even degree, is positive,
/// and scaling turns it into infinity. For infinity it would be NaN, which the instruction treats as infinity when n is
/// infinite.
Value expandExpByScaling(Code &code, Value x) {
  ReducedExponential reduced = reduceExponential(code, x);
  Value normal = code.compare(arith::CmpFPredicate::UGE, x, smallestNormalExponent);
  return code.scaleMasked(code.add(reduced.expm1, code.constant(1)), reduced.n, normal);
}

Value expandExp(Code &code, Value x) {
  ReducedExponential reduced = reduceExponential(code, x);
  Value fraction = code.add(reduced.expm1, code.constant(1));
  Value result = code.asReal(code.addInteger(code.asInteger(fraction), reduced.exponent));
  // Where the exponent field cannot hold the result: 0 below the normal numbers; infinity, or NaN, above.
  result = code.choose(code.compare(arith::CmpFPredicate::OLT, x, smallestNormalExponent), code.constant(0), result);
  Value large = code.compare(arith::CmpFPredicate::UGT, x, 88.72283);
  return code.choose(large, code.mul(x, code.constant(infinity)), result);
}

/// tanh(x) = m / (m + 2) with m = e^2x - 1, which is accurate near zero too.
Value expandTanh(Code &code, Value x) {
  x = code.clamp(x, -10, 10);
  ReducedExponential reduced = reduceExponential(code, code.add(x, x));
  Value scale = code.asReal(code.addInteger(reduced.exponent, code.bits(127 << 23)));
  Value m = code.fma(reduced.expm1, scale, code.sub(scale, code.constant(1)));
  return code.div(m, code.add(m, code.constant(2)));
}

/// erf(x) = x P(x²) / Q(x²) up to 3.92, where it rounds to 1: relative error 2e-8 before rounding.
Value expandErf(Code &code, Value x) {
  x = code.clamp(x, -3.92, 3.92);
  Value square = code.mul(x, x);
  Value p = code.polynomial(square, {1.1283791065216064, 0.19040724635124207, 0.05274882912635803,
                                     0.0037656512577086687, 0.00028488365933299065, 2.0500831396930153e-06});
  Value q = code.polynomial(square, {1, 0.5020767450332642, 0.11410943418741226, 0.01496928557753563,
                                     0.0011625441256910563, 3.80917226721067e-05});
  return code.div(code.mul(x, p), q);
}

Value expandLog(Code &code, Value x) {
  // Subnormal numbers are scaled into the normal range.
  Value tiny = code.compare(arith::CmpFPredicate::OLT, x, 0x1p-126);
  Value scaled = code.choose(tiny, code.mul(x, code.constant(0x1p23)), x);
  Value shift = code.choose(tiny, code.constant(-23), code.constant(0));
  // scaled = 2^e m with m in [√½, √2): the offset moves the border of the exponent field to √½.
  constexpr int32_t rootHalf = 0x3f3504f3;
  Value offset = code.subInteger(code.asInteger(scaled), code.bits(rootHalf));
  Value e = code.add(code.toReal(code.shiftRight(offset, 23)), shift);
  Value m = code.asReal(code.addInteger(code.andInteger(offset, 0x7fffff), code.bits(rootHalf)));
  Value f = code.sub(m, code.constant(1)), square = code.mul(f, f);
  // (log(1 + f) - f + f²/2) / f³, relative error of the logarithm 6e-9.
  Value p = code.polynomial(
      f, {0.33333331, -0.25000820, 0.20001227, -0.16623357, 0.14201757, -0.13160184, 0.12761582, -0.076344974});
  constexpr double high = 0.693359375, low = ln2 - high;
  Value tail = code.fma(code.mul(square, f), p, code.mul(e, code.constant(low)));
  tail = code.fma(square, code.constant(-0.5), tail);
  Value result = code.fma(e, code.constant(high), code.add(f, tail));
  // Outside (0, infinity).
  using Predicate = arith::CmpFPredicate;
  result = code.choose(code.compare(Predicate::OEQ, x, 0), code.constant(-infinity), result);
  result =
      code.choose(code.compare(Predicate::ULT, x, 0), code.constant(std::numeric_limits<float>::quiet_NaN()), result);
  return code.choose(code.compare(Predicate::OEQ, x, infinity), x, result);
}

/// Whether values of this type fill a register of AVX-512 (callers pass f32 elements anyway).
bool fillsRegister(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getNumElements() == 16;
}

template <typename Op>
void expandAll(Operation *root, Value (*expand)(Code &, Value), bool (*applies)(Type) = [](Type) { return true; }) {
  root->walk([&](Op op) {
    if (!getElementTypeOrSelf(op.getType()).isF32() || !applies(op.getType()))
      return;
    OpBuilder builder(op);
    Code code(builder, op.getLoc(), op.getType());
    op.getResult().replaceAllUsesWith(expand(code, op.getOperand()));
    op.erase();
  });
}

} // namespace

void dtc::expandMath(Operation *root, bool hasAvx512) {
  if (hasAvx512)
    expandAll<math::ExpOp>(root, expandExpByScaling, fillsRegister);
  expandAll<math::ExpOp>(root, expandExp);
  expandAll<math::TanhOp>(root, expandTanh);
  expandAll<math::ErfOp>(root, expandErf);
  expandAll<math::LogOp>(root, expandLog);
}
