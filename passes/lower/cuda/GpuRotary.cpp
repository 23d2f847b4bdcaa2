// The rotary embedding on GPUs: dtc_rotary of runtime/kernels/kernels.h, a pair of elements at a time. Angles are
// computed in f64, as on processors: f32 angles of large positions lose digits.
#include "passes/lower/KernelValues.h"
#include "passes/lower/cuda/GpuLibrary.h"
#include "runtime/abi/kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace dtc {
namespace {

/// Short forms for f64.
class Real {
public:
  Real(CodeBuilder &builder) : builder(builder), type(builder.getF64Type()) {}

  Value constant(double value) { return builder.constant(builder.getF64FloatAttr(value)); }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, builder.loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, builder.loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, builder.loc, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, builder.loc, a, b); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, builder.loc, a, b, c); }
  Value fromInteger(Value a) { return arith::SIToFPOp::create(builder, builder.loc, type, a); }
  /// The nearest integer, as f64 and as i64.
  std::pair<Value, Value> round(Value a) {
    // Beyond 2^52 numbers of f64 are integers: adding and subtracting that rounds.
    Value shift = constant(0x1.8p52), rounded = sub(add(a, shift), shift);
    return {rounded, arith::FPToSIOp::create(builder, builder.loc, builder.getI64Type(), rounded)};
  }
  /// first + x (second + x (third + ...)).
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(coefficient));
    return sum;
  }
  Value log2(Value x);
  Value exp2(Value x);
  std::pair<Value, Value> sinCos(Value angle);

private:
  Value choose(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, builder.loc, condition, a, b);
  }
  Value bitAnd(Value a, int64_t mask) { return arith::AndIOp::create(builder, builder.loc, a, builder.integer(mask)); }

  CodeBuilder &builder;
  Type type;
};

/// Of positive normal numbers: with x = m 2^e, m in [0.7, 1.4], ln m = 2 artanh((m - 1) / (m + 1)), by its series.
Value Real::log2(Value x) {
  Location loc = builder.loc;
  Type integer = builder.getI64Type();
  Value bits = arith::BitcastOp::create(builder, loc, integer, x);
  // Taken from the bits of sqrt(1/2), so that the exponent changes there.
  Value base = builder.integer(0x3fe6a09e667f3bcd);
  Value exponent =
      arith::ShRSIOp::create(builder, loc, arith::SubIOp::create(builder, loc, bits, base), builder.integer(52));
  Value shifted = arith::ShLIOp::create(builder, loc, exponent, builder.integer(52));
  Value m = arith::BitcastOp::create(builder, loc, type, arith::SubIOp::create(builder, loc, bits, shifted));
  Value one = constant(1), z = div(sub(m, one), add(m, one));
  SmallVector<double> series;
  for (int k = 0; k < 12; ++k)
    series.push_back(2 / std::numbers::ln2 / (2 * k + 1));
  return fma(z, polynomial(mul(z, z), series), fromInteger(exponent));
}

/// 2 to a number between -1000 and 1000: the power of the nearest integer is an exponent, of the rest a Taylor series.
Value Real::exp2(Value x) {
  Location loc = builder.loc;
  auto [whole, integer] = round(x);
  SmallVector<double> series;
  double term = 1;
  for (int k = 0; k < 15; term *= std::numbers::ln2 / ++k)
    series.push_back(term);
  Value fraction = polynomial(sub(x, whole), series);
  Value exponent =
      arith::ShLIOp::create(builder, loc, builder.add(integer, builder.integer(1023)), builder.integer(52));
  return mul(fraction, arith::BitcastOp::create(builder, loc, type, exponent));
}

/// Of angles below 2^30: what is left of the nearest multiple of pi/2 by Taylor series, by quadrants.
std::pair<Value, Value> Real::sinCos(Value angle) {
  Location loc = builder.loc;
  auto [whole, quadrant] = round(mul(angle, constant(2 * std::numbers::inv_pi)));
  // pi/2 in three parts: the first two have 33 bits each, so that their products with integers are exact.
  Value rest = angle;
  for (double part : {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69})
    rest = fma(whole, constant(-part), rest);
  Value square = mul(rest, rest);
  SmallVector<double> odd, even;
  double term = 1;
  for (int k = 0; k < 18; term /= ++k)
    (k % 2 ? odd : even).push_back(k / 2 % 2 ? -term : term);
  Value sine = mul(rest, polynomial(square, odd)), cosine = polynomial(square, even);
  Value zero = builder.integer(0), negative = constant(-1), positive = constant(1);
  auto isSet = [&](Value number, int64_t bit) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bitAnd(number, bit), zero).getResult();
  };
  Value exchanged = isSet(quadrant, 1);
  Value sineSign = choose(isSet(quadrant, 2), negative, positive);
  Value cosineSign = choose(isSet(builder.add(quadrant, builder.integer(1)), 2), negative, positive);
  return {mul(choose(exchanged, cosine, sine), sineSign), mul(choose(exchanged, sine, cosine), cosineSign)};
}

/// Elements of f32, bf16 or f16, as a launch scalar says, read and written as f32.
class Elements {
public:
  Elements(CodeBuilder &builder, Value number)
      : isWide(is(builder, number, dtc_f32)), isBf16(is(builder, number, dtc_bf16)) {}

  Value load(CodeBuilder &builder, Value base, Value index) const {
    auto read = [&](Type type, OpBuilder &inner, Location loc) {
      return LLVM::LoadOp::create(inner, loc, type, addressOf(inner, loc, type, base, index), widthOf(type))
          .getResult();
    };
    auto wide = [&](OpBuilder &inner, Location loc) {
      scf::YieldOp::create(inner, loc, read(inner.getF32Type(), inner, loc));
    };
    auto narrow = [&](OpBuilder &inner, Location loc) {
      Value bits = read(inner.getI16Type(), inner, loc);
      auto as = [&](Type type) {
        Value value = arith::BitcastOp::create(inner, loc, type, bits);
        return arith::ExtFOp::create(inner, loc, inner.getF32Type(), value).getResult();
      };
      Value value = arith::SelectOp::create(inner, loc, isBf16, as(inner.getBF16Type()), as(inner.getF16Type()));
      scf::YieldOp::create(inner, loc, value);
    };
    return scf::IfOp::create(builder, builder.loc, isWide, wide, narrow).getResult(0);
  }

  void store(CodeBuilder &builder, Value value, Value base, Value index) const {
    auto write = [&](Value bits, OpBuilder &inner, Location loc) {
      Type type = bits.getType();
      LLVM::StoreOp::create(inner, loc, bits, addressOf(inner, loc, type, base, index), widthOf(type));
      scf::YieldOp::create(inner, loc);
    };
    auto wide = [&](OpBuilder &inner, Location loc) { write(value, inner, loc); };
    auto narrow = [&](OpBuilder &inner, Location loc) {
      auto as = [&](Type type) {
        Value rounded = arith::TruncFOp::create(inner, loc, type, value);
        return arith::BitcastOp::create(inner, loc, inner.getI16Type(), rounded).getResult();
      };
      write(arith::SelectOp::create(inner, loc, isBf16, as(inner.getBF16Type()), as(inner.getF16Type())), inner, loc);
    };
    scf::IfOp::create(builder, builder.loc, isWide, wide, narrow);
  }

private:
  static Value is(CodeBuilder &builder, Value number, int64_t element) {
    return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::eq, number, builder.integer(element));
  }
  static unsigned widthOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }
  static Value addressOf(OpBuilder &builder, Location loc, Type type, Value base, Value index) {
    return LLVM::GEPOp::create(builder, loc, base.getType(), type, base, ArrayRef<LLVM::GEPArg>{index});
  }

  const Value isWide, isBf16;
};

/// Buffers x, positions, out; the scalars of dtc_rotary; then, as of all library kernels, grid and threads.
enum Argument : unsigned {
  X,
  Positions,
  Out,
  Outer,
  Length,
  Inner,
  Size,
  Theta,
  Sign,
  FirstStride,
  ElementType = FirstStride + 6,
  Grid,
  Threads,
  Count
};

/// One pair of elements: (x_h, x_h+half) turned by the angle of its position.
void emitPair(CodeBuilder &builder, ValueRange arguments, Value number, Value half, const Elements &elements) {
  Location loc = builder.loc;
  auto split = [&](Value &number, Value size) {
    Value rest = arith::RemUIOp::create(builder, loc, number, size);
    number = arith::DivUIOp::create(builder, loc, number, size);
    return rest;
  };
  Value h = split(number, half), inner = split(number, arguments[Inner]), s = split(number, arguments[Length]);
  auto indexIn = [&](unsigned stride) {
    Value at = builder.add(builder.mul(number, arguments[stride]), builder.mul(s, arguments[stride + 1]));
    return builder.add(builder.add(at, builder.mul(inner, arguments[stride + 2])), h);
  };
  Real real(builder);
  Value position =
      LLVM::LoadOp::create(builder, loc, builder.getI32Type(),
                           LLVM::GEPOp::create(builder, loc, arguments[Positions].getType(), builder.getI32Type(),
                                               arguments[Positions], ArrayRef<LLVM::GEPArg>{s}),
                           4);
  Value theta = arith::BitcastOp::create(builder, loc, builder.getF64Type(), arguments[Theta]);
  Value part = real.div(real.fromInteger(h), real.fromInteger(half));
  Value frequency = real.exp2(real.mul(real.sub(real.constant(0), part), real.log2(theta)));
  auto [sine, cosine] = real.sinCos(real.mul(real.fromInteger(position), frequency));
  auto narrow = [&](Value value) { return arith::TruncFOp::create(builder, loc, builder.getF32Type(), value); };
  Value sin = narrow(real.mul(sine, real.fromInteger(arguments[Sign]))), cos = narrow(cosine);

  Value from = indexIn(FirstStride), to = indexIn(FirstStride + 3);
  Value first = elements.load(builder, arguments[X], from);
  Value second = elements.load(builder, arguments[X], builder.add(from, half));
  auto turned = [&](Value a, Value b, Value sin) -> Value {
    return math::FmaOp::create(builder, loc, a, cos, arith::MulFOp::create(builder, loc, b, sin).getResult());
  };
  Value minus = arith::NegFOp::create(builder, loc, sin);
  elements.store(builder, turned(first, second, minus), arguments[Out], to);
  elements.store(builder, turned(second, first, sin), arguments[Out], builder.add(to, half));
}

} // namespace

void addGpuRotary(gpu::GPUModuleOp module) {
  OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  SmallVector<Type> types(3, LLVM::LLVMPointerType::get(module.getContext()));
  types.append(Count - types.size(), atEnd.getI64Type());
  auto function = gpu::GPUFuncOp::create(atEnd, loc, "dtc_cuda_rotary", atEnd.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), atEnd.getUnitAttr());
  function.setKnownBlockSizeAttr(atEnd.getDenseI32ArrayAttr({libraryThreads, 1, 1}));
  atEnd.setInsertionPointToEnd(&function.getBody().front());
  CodeBuilder builder(gpu::ReturnOp::create(atEnd, loc), loc);

  auto number = [&](Operation *id) {
    return arith::IndexCastUIOp::create(builder, loc, builder.getI64Type(), id->getResult(0)).getResult();
  };
  Value thread = number(gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x));
  Value block = number(gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x));
  ValueRange arguments = function.getArguments();
  Value first = builder.add(builder.mul(block, builder.integer(libraryThreads)), thread);
  Value half = arith::DivUIOp::create(builder, loc, arguments[Size], builder.integer(2));
  Value pairs = builder.mul(builder.mul(arguments[Grid], arguments[Inner]), half);
  Elements elements(builder, arguments[ElementType]);
  auto loop = scf::ForOp::create(builder, loc, first, pairs, arguments[Threads]);
  CodeBuilder inner(loop.getBody()->getTerminator(), loc);
  emitPair(inner, arguments, loop.getInductionVar(), half, elements);
}

} // namespace dtc
