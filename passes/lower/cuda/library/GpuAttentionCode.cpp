#include "passes/lower/cuda/library/GpuAttentionCode.h"
#include "runtime/abi/kernel.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>
#include <numbers>

using namespace mlir;
using namespace dtc;

static constexpr int64_t paddingPosition = std::numeric_limits<int32_t>::max();

static Type elementType(int64_t number, MLIRContext *context) {
  if (number == dtc_bf16)
    return BFloat16Type::get(context);
  if (number == dtc_f16)
    return Float16Type::get(context);
  return Float32Type::get(context);
}

static std::unique_ptr<GpuTiles> makeTiles(const GpuAttention &kind, StringRef what, gpu::GPUModuleOp module) {
  using namespace abi::library;
  std::string name = kind.name(what);
  GpuTilesFunction function{name,
                            (kind.isBackward ? GpuAttentionCode::Scratch + 1u : GpuAttentionCode::LogSumExp + 1u) +
                                (kind.documents ? 1u : 0u),
                            unsigned(kind.isBackward ? countOf<AttentionBackwardScalars> : countOf<AttentionScalars>),
                            kind.width,
                            GpuTiles::size,
                            elementType(kind.element, module.getContext()),
                            module};
  // Sums of wide heads fill the registers, and tiles workgroup memory; so do the sums of two gradients.
  if (kind.usesMatrixUnits())
    function.columns = GpuTiles::size / (kind.width > 64 ? 2 : 1) / (what == "attention_d_kv" ? 2 : 1);
  bool hasProducts = what != "attention_deltas";
  return hasProducts && kind.usesMatrixUnits() ? makeGpuMmaTiles(function) : makeGpuFmaTiles(function);
}

GpuAttentionCode::GpuAttentionCode(const GpuAttention &kind, StringRef what, gpu::GPUModuleOp module)
    : tiles(makeTiles(kind, what, module)), code(*tiles), kind(kind) {
  minusInfinity = code.real(-std::numeric_limits<double>::infinity());
  Value log2OfE = code.constant(code.getF64FloatAttr(std::numbers::log2e));
  scaleInBase2 = narrowed(code.times(realScalar(kind.softcap ? &Scalars::softcap : &Scalars::scale), log2OfE));
  if (kind.softcap)
    scaleOfShares =
        narrowed(arith::DivFOp::create(code, code.loc, realScalar(&Scalars::scale), realScalar(&Scalars::softcap)));
  if (kind.dropout)
    prepareDropout();
}

Value GpuAttentionCode::scalarAt(size_t number) {
  return code.argument((kind.isBackward ? Scratch + 1 : LogSumExp + 1) + (kind.documents ? 1 : 0) + number);
}

Value GpuAttentionCode::realScalar(double Scalars::*field) {
  return arith::BitcastOp::create(code, code.loc, code.getF64Type(), scalarAt(abi::library::indexOf(field)));
}

Value GpuAttentionCode::narrowed(Value real) {
  return arith::TruncFOp::create(code, code.loc, code.getF32Type(), real);
}

// Heads

GpuHead GpuAttentionCode::headOfKeys(Value number) {
  return {code.quotient(number, scalar(&Scalars::G)), code.rest(number, scalar(&Scalars::G)), nullptr};
}

GpuHead GpuAttentionCode::headOfQueries(Value number) {
  GpuHead head = headOfKeys(code.quotient(number, scalar(&Scalars::R)));
  head.r = code.rest(number, scalar(&Scalars::R));
  return head;
}

GpuRows GpuAttentionCode::rows(Buffer number, abi::library::QueryStrides Scalars::*strides, const GpuHead &head) {
  auto stride = [&](auto field) { return scalarAt(abi::library::indexOf(strides) + abi::library::indexOf(field)); };
  using Strides = abi::library::QueryStrides;
  Value at = code.add(code.mul(head.b, stride(&Strides::b)), code.mul(head.g, stride(&Strides::g)));
  at = code.add(at, code.mul(head.r, stride(&Strides::r)));
  Value data = code.CodeBuilder::element(code.element, buffer(number), at);
  return code.rows(data, stride(&Strides::s), scalar(&Scalars::S));
}

GpuRows GpuAttentionCode::rows(Buffer number, abi::library::KeyStrides Scalars::*strides, const GpuHead &head) {
  auto stride = [&](auto field) { return scalarAt(abi::library::indexOf(strides) + abi::library::indexOf(field)); };
  using Strides = abi::library::KeyStrides;
  Value at = code.add(code.mul(head.b, stride(&Strides::b)), code.mul(head.g, stride(&Strides::g)));
  Value data = code.CodeBuilder::element(code.element, buffer(number), at);
  return code.rows(data, stride(&Strides::t), scalar(&Scalars::T));
}

Value GpuAttentionCode::firstOf(const GpuHead &head) {
  Value group = code.add(code.mul(head.b, scalar(&Scalars::G)), head.g);
  return code.mul(code.add(code.mul(group, scalar(&Scalars::R)), head.r), scalar(&Scalars::S));
}

// Positions

/// Of the last one where the index is beyond it.
Value GpuAttentionCode::positionAt(Buffer positions, Value index, Value count) {
  Value at = code.smaller(index, code.minus(count, code.integer(1)));
  return code.load(code.getI32Type(), code.CodeBuilder::element(code.getI32Type(), buffer(positions), at));
}

Value GpuAttentionCode::keyPosition(Value key) {
  return code.choose(code.less(key, scalar(&Scalars::T)), positionAt(KeyPositions, key, scalar(&Scalars::T)),
                     code.word(paddingPosition));
}

GpuQuery GpuAttentionCode::query(Value number, const GpuHead &head) {
  GpuQuery query;
  Value exists = code.less(number, scalar(&Scalars::S));
  Value position = positionAt(QueryPositions, number, scalar(&Scalars::S));
  Value limit = kind.causal ? position : code.word(paddingPosition - 1);
  query.limit = code.choose(exists, limit, code.word(std::numeric_limits<int32_t>::min()));
  if (kind.window)
    query.floor =
        code.minus(position, arith::TruncIOp::create(code, code.loc, code.getI32Type(), scalar(&Scalars::window)));
  if (kind.documents) {
    Value known = code.smaller(number, code.minus(scalar(&Scalars::S), code.integer(1)));
    Value at = code.add(code.mul(head.b, scalar(&Scalars::S)), known);
    Value start =
        code.load(code.getI32Type(), code.CodeBuilder::element(code.getI32Type(), code.argument(Key + 1u), at));
    Value before = code.minus(start, code.word(1));
    query.floor = query.floor ? code.larger(query.floor, before) : before;
  }
  if (kind.isBackward) {
    Value row = code.add(firstOf(head), code.smaller(number, code.minus(scalar(&Scalars::S), code.integer(1))));
    auto real = [&](Buffer buffers) {
      return code.load(code.getF32Type(), code.CodeBuilder::element(code.getF32Type(), buffer(buffers), row));
    };
    query.logSumExp = code.times(real(LogSumExp), code.real(std::numbers::log2e));
    query.delta = real(Scratch);
  }
  if (kind.dropout)
    query.draw = firstDraw(position, head);
  return query;
}

SmallVector<GpuQuery> GpuAttentionCode::queriesOfRows(Value first, const GpuHead &head) {
  SmallVector<GpuQuery> queries;
  for (int64_t i = 0; i < code.patchRows(); ++i)
    queries.push_back(query(code.add(first, code.rowOf(i)), head));
  return queries;
}

Value GpuAttentionCode::firstDraw(Value position, const GpuHead &head) {
  Type narrow = code.getI32Type();
  auto wide = [&](Value value) -> Value { return arith::ExtSIOp::create(code, code.loc, code.getI64Type(), value); };
  Value keySample = code.load(narrow, code.CodeBuilder::element(narrow, buffer(Key), code.integer(2)));
  Value sample = code.add(wide(keySample), code.add(scalar(&Scalars::firstSample), head.b));
  Value group = code.add(code.mul(sample, scalar(&Scalars::allGroups)), code.add(scalar(&Scalars::firstGroup), head.g));
  Value whole =
      code.add(code.mul(group, scalar(&Scalars::allRepeats)), code.add(scalar(&Scalars::firstRepeat), head.r));
  return code.mul(code.add(code.mul(whole, scalar(&Scalars::length)), wide(position)), scalar(&Scalars::length));
}

/// Each warp finds it for itself: no barrier, and all threads agree.
GpuAttentionCode::Range GpuAttentionCode::rangeOf(Buffer positions, Value first, Value count) {
  constexpr int64_t warp = 32;
  Value lane = code.rest(code.thread, code.integer(warp));
  Value one = positionAt(positions, code.add(first, lane), count);
  Value other = positionAt(positions, code.add(first, code.add(lane, code.integer(warp))), count);
  auto smaller = [&](Value a, Value b) { return code.smaller(a, b); };
  auto larger = [&](Value a, Value b) { return code.larger(a, b); };
  return {code.acrossThreads(smaller(one, other), warp, smaller), code.acrossThreads(larger(one, other), warp, larger)};
}

Value GpuAttentionCode::isHidden(const Range &queries, const Range &keys) {
  Value hidden = code.less(queries.largest, keys.smallest);
  if (!kind.window)
    return hidden;
  Value window = arith::TruncIOp::create(code, code.loc, code.getI32Type(), scalar(&Scalars::window));
  Value outside = code.less(keys.largest, code.add(code.minus(queries.smallest, window), code.word(1)));
  return arith::OrIOp::create(code, code.loc, hidden, outside);
}

GpuWalk GpuAttentionCode::tilesOfKeys(const GpuHead &head, Value firstQuery) {
  auto firstKey = [this](Value number) { return code.mul(number, code.integer(code.columns)); };
  GpuWalk walk{code.columnTiles(scalar(&Scalars::T)), [=, this](Value number) -> GpuTilePair {
                 Value first = firstKey(number);
                 return {GpuTile{rows(K, &Scalars::k, head), first}, GpuTile{rows(V, &Scalars::v, head), first}};
               }};
  if (kind.causal)
    walk.isHidden = [=, this, queries = rangeOfQueries(firstQuery)](Value number) {
      return isHidden(queries, rangeOfKeys(firstKey(number)));
    };
  return walk;
}

// Scores

/// 1 - 2 / (e^2x + 1), whose absolute error is that of numbers near 1.
Value GpuAttentionCode::tangent(Value x) {
  Value power = code.powerOfTwo(code.times(x, code.real(2 * std::numbers::log2e))), one = code.real(1);
  Value rest = arith::DivFOp::create(code, code.loc, code.real(2), code.plus(power, one));
  return code.minus(one, rest);
}

Value GpuAttentionCode::maskedScore(Value product, const GpuQuery &query, Value keyPosition, Value *share) {
  if (kind.softcap) {
    product = tangent(code.times(product, scaleOfShares));
    if (share)
      *share = product;
  }
  Value masked = code.choose(code.less(query.limit, keyPosition), minusInfinity, code.times(product, scaleInBase2));
  return hasFloor() ? code.choose(code.less(query.floor, keyPosition), masked, minusInfinity) : masked;
}

Value GpuAttentionCode::reference(Value largest) {
  return code.choose(code.equal(largest, minusInfinity), code.real(0), largest);
}

// Dropout: random::uniform of runtime/abi/random.h.

Value GpuAttentionCode::shiftRight(Value bits, int64_t count) {
  Value distance = bits.getType().isInteger(32) ? code.word(count) : code.integer(count);
  return arith::ShRUIOp::create(code, code.loc, bits, distance);
}

Value GpuAttentionCode::mix(Value bits) {
  auto spread = [&](int64_t count) { bits = arith::XOrIOp::create(code, code.loc, bits, shiftRight(bits, count)); };
  spread(16);
  bits = code.mul(bits, code.word(0x7feb352d));
  spread(15);
  bits = code.mul(bits, code.word(0x846ca68b));
  spread(16);
  return bits;
}

void GpuAttentionCode::prepareDropout() {
  Location loc = code.loc;
  auto keyWord = [&](int64_t number) {
    return code.load(code.getI32Type(),
                     code.CodeBuilder::element(code.getI32Type(), buffer(Key), code.integer(number)));
  };
  Value site = arith::TruncIOp::create(code, loc, code.getI32Type(), scalar(&Scalars::site));
  Value seeded = code.add(code.add(mix(keyWord(0)), code.word(0x9e3779b9)), keyWord(1));
  stream = mix(code.add(code.add(mix(seeded), code.word(0x85ebca6b)), site));
  // uniform < p, in integers: (bits >> 8) < p 2^24, rounded up.
  auto real = [&](double value) { return code.constant(code.getF64FloatAttr(value)); };
  Value probability = realScalar(&Scalars::dropout), scaled = code.times(probability, real(0x1p24));
  Value whole = arith::FPToSIOp::create(code, loc, code.getI32Type(), scaled);
  Value isLess = code.less(arith::SIToFPOp::create(code, loc, code.getF64Type(), whole), scaled);
  threshold = code.add(whole, arith::ExtUIOp::create(code, loc, code.getI32Type(), isLess));
  Value kept = arith::DivFOp::create(code, loc, real(1), code.minus(real(1), probability));
  factor = arith::TruncFOp::create(code, loc, code.getF32Type(), kept);
}

Value GpuAttentionCode::keptFactor(Value draw, Value keyPosition) {
  Location loc = code.loc;
  auto low = [&](Value wide) -> Value { return arith::TruncIOp::create(code, loc, code.getI32Type(), wide); };
  Value index = code.add(draw, arith::ExtSIOp::create(code, loc, code.getI64Type(), keyPosition));
  Value first = mix(arith::XOrIOp::create(code, loc, low(index), stream));
  // stream << 1 | 1
  Value odd = code.add(code.add(stream, stream), code.word(1));
  Value bits = mix(code.add(code.add(first, low(shiftRight(index, 32))), odd));
  // Both are below 2^24 or equal to it: signed or not is the same.
  return code.choose(code.less(shiftRight(bits, 8), threshold), code.real(0), factor);
}
