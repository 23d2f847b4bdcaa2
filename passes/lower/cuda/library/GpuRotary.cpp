#include "passes/lower/cuda/library/GpuRotary.h"
#include "dialect/IR/LibraryScalars.h"
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/rotary.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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
  /// What a scalar of the launch has the bits of.
  Value ofBits(Value bits) { return arith::BitcastOp::create(builder, builder.loc, type, bits); }
  Value clamp(Value a, double least, double most) {
    Value above = arith::MaximumFOp::create(builder, builder.loc, a, constant(least));
    return arith::MinimumFOp::create(builder, builder.loc, above, constant(most));
  }
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

using Scalars = abi::library::RotaryScalars;
using Arguments = LibraryArguments<Scalars>;

/// Of the table, and scratch.
enum Buffer : unsigned { X, Positions, Out, Table, Buffers };
constexpr llvm::StringLiteral anglesName = "dtc_cuda_rotary_angles", pairsName = "dtc_cuda_rotary_pairs";

/// Numbers that fit 32 bits, whose division takes a GPU a third of the time.
struct Split {
  CodeBuilder &builder;

  Value narrow(Value number) { return arith::TruncIOp::create(builder, builder.loc, builder.getI32Type(), number); }
  Value widen(Value number) { return arith::ExtUIOp::create(builder, builder.loc, builder.getI64Type(), number); }
  /// The rest; `number` becomes the quotient.
  Value rest(Value &number, Value size) {
    Value divisor = narrow(size), rest = arith::RemUIOp::create(builder, builder.loc, number, divisor);
    number = arith::DivUIOp::create(builder, builder.loc, number, divisor);
    return widen(rest);
  }
};

Value scalingOf(Real &real, const Arguments &arguments, double abi::RotaryScaling::*field) {
  return real.ofBits(arguments.at(abi::library::indexOf(&Scalars::scaling) + abi::library::indexOf(field)));
}

/// rotaryFrequency of runtime/abi/rotary.h.
Value emitFrequency(Real &real, const Arguments &arguments, Value pair) {
  using Scaling = abi::RotaryScaling;
  auto scaling = [&](double Scaling::*field) { return scalingOf(real, arguments, field); };
  Value part = real.div(pair, real.fromInteger(arguments[&Scalars::pairs]));
  Value theta = real.ofBits(arguments[&Scalars::theta]);
  Value frequency = real.exp2(real.mul(real.sub(real.constant(0), part), real.log2(theta)));
  Value ofPair = real.fma(scaling(&Scaling::perPair), pair, scaling(&Scaling::constant));
  Value kept = real.clamp(real.fma(scaling(&Scaling::perFrequency), frequency, ofPair), 0, 1);
  Value divided = real.div(real.sub(real.constant(1), kept), scaling(&Scaling::factor));
  return real.mul(frequency, real.add(kept, divided));
}

/// Sine, with the sign of the launch, and cosine of one position's angle, into the table.
void emitAngle(CodeBuilder &builder, const Arguments &arguments, Value number) {
  Location loc = builder.loc;
  Split split{builder};
  Value position = split.narrow(number), pair = split.rest(position, arguments[&Scalars::pairs]);
  Value s = split.widen(position);
  Real real(builder);
  Value where = builder.load(builder.getI32Type(), builder.element(builder.getI32Type(), arguments[Positions], s), 4);
  Value frequency = emitFrequency(real, arguments, real.fromInteger(pair));
  auto [sine, cosine] = real.sinCos(real.mul(real.fromInteger(where), frequency));
  Value two = builder.integer(2), amplitude = scalingOf(real, arguments, &abi::RotaryScaling::amplitude);
  std::array values = {real.mul(real.mul(sine, real.fromInteger(arguments[&Scalars::sign])), amplitude),
                       real.mul(cosine, amplitude)};
  for (auto [i, value] : llvm::enumerate(values)) {
    Value at = builder.add(builder.mul(number, two), builder.integer(int64_t(i)));
    Value narrow = arith::TruncFOp::create(builder, loc, builder.getF32Type(), value);
    builder.store(narrow, builder.element(builder.getF32Type(), arguments[Table], at), 4);
  }
}

/// One pair of elements: (x_h, x_h+n) turned by the angle of its position, for the n pairs that turn. Behind these,
/// number h takes two elements as they are: (x_h+n, x_h+half).
void emitPair(CodeBuilder &builder, const Arguments &arguments, Value pair, Value half,
              const LibraryElements &elements) {
  Location loc = builder.loc;
  Split split{builder};
  Value number = split.narrow(pair);
  Value h = split.rest(number, half), inner = split.rest(number, arguments[&Scalars::inner]);
  Value s = split.rest(number, arguments[&Scalars::S]), outer = split.widen(number);
  auto indexIn = [&](abi::library::RowStrides Scalars::*strides) {
    auto stride = [&](int64_t abi::library::RowStrides::*field) {
      return arguments.at(abi::library::indexOf(strides) + abi::library::indexOf(field));
    };
    using Strides = abi::library::RowStrides;
    Value at = builder.add(builder.mul(outer, stride(&Strides::outer)), builder.mul(s, stride(&Strides::s)));
    return builder.add(at, builder.mul(inner, stride(&Strides::inner)));
  };
  Value pairsThatTurn = arguments[&Scalars::pairs];
  Value turns = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, h, pairsThatTurn);
  auto choose = [&](Value ifTurned, Value ifNot) -> Value {
    return arith::SelectOp::create(builder, loc, turns, ifTurned, ifNot);
  };
  Value behind = builder.add(h, pairsThatTurn);
  Value one = choose(h, behind), other = choose(behind, builder.add(h, half)), known = choose(h, builder.integer(0));
  Value angle = builder.mul(builder.add(builder.mul(s, pairsThatTurn), known), builder.integer(2));
  auto entry = [&](Value at) {
    return builder.load(builder.getF32Type(), builder.element(builder.getF32Type(), arguments[Table], at), 4);
  };
  Value sin = entry(angle), cos = entry(builder.add(angle, builder.integer(1)));
  Value from = indexIn(&Scalars::x), to = indexIn(&Scalars::out);
  Value first = elements.load(builder, arguments[X], builder.add(from, one));
  Value second = elements.load(builder, arguments[X], builder.add(from, other));
  auto turned = [&](Value a, Value b, Value sin) -> Value {
    return math::FmaOp::create(builder, loc, a, cos, arith::MulFOp::create(builder, loc, b, sin).getResult());
  };
  Value minus = arith::NegFOp::create(builder, loc, sin);
  elements.store(builder, choose(turned(first, second, minus), first), arguments[Out], builder.add(to, one));
  elements.store(builder, choose(turned(second, first, sin), second), arguments[Out], builder.add(to, other));
}

Value halfOf(CodeBuilder &builder, const Arguments &arguments) {
  return arith::DivUIOp::create(builder, builder.loc, arguments[&Scalars::E], builder.integer(2));
}

} // namespace

std::optional<LibraryKernel> gpuRotaryOf(const dt::LibraryCall &call, StringRef prefix, std::string &why) {
  auto scalars = dt::knownScalars<Scalars>(call);
  int64_t angles = scalars.S * scalars.pairs;
  int64_t pairs = scalars.outer * scalars.S * scalars.inner * scalars.E / 2;
  if (pairs > std::numeric_limits<int32_t>::max()) {
    why = "for " + std::to_string(pairs) + " pairs, only for less than 2^31";
    return std::nullopt;
  }
  std::string symbol = (prefix + "rotary$" + Twine(scalars.outer) + "x" + Twine(scalars.S) + "x" +
                        Twine(scalars.inner) + "x" + Twine(scalars.E))
                           .str();
  return LibraryKernel{symbol,
                       {{anglesName.str(), libraryBlocks(angles), libraryThreads},
                        {pairsName.str(), libraryBlocks(pairs), libraryThreads}},
                       int64_t(abi::bytesOf(abi::F32, uint64_t(std::max<int64_t>(2 * angles, 1))))};
}

void addGpuRotary(gpu::GPUModuleOp module) {
  gpu::GPUFuncOp table = addLibraryFunction(module, anglesName, Buffers, Arguments::count);
  Arguments ofTable(table, Buffers);
  CodeBuilder code = codeOf(table);
  forEachInTurn(code, table, code.mul(ofTable[&Scalars::S], ofTable[&Scalars::pairs]),
                [&](CodeBuilder &inner, Value number) { emitAngle(inner, ofTable, number); });
  gpu::GPUFuncOp turn = addLibraryFunction(module, pairsName, Buffers, Arguments::count);
  Arguments arguments(turn, Buffers);
  CodeBuilder builder = codeOf(turn);
  Value width = halfOf(builder, arguments);
  Value pairs = builder.mul(builder.mul(arguments.grid(), arguments[&Scalars::inner]), width);
  LibraryElements elements(builder, arguments[&Scalars::element]);
  forEachInTurn(builder, turn, pairs,
                [&](CodeBuilder &inner, Value number) { emitPair(inner, arguments, number, width, elements); });
}

} // namespace dtc
