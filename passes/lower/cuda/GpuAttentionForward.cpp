// Attention, for 64 queries of a head: for each the largest score so far, the sum of exponentials relative to it and
// the weighted sum of values are kept, and rescaled when a later tile has a larger score (Milakov and Gimelshein 2018).
#include "passes/lower/cuda/GpuAttentionCode.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace dtc {
namespace {

class Forward : public GpuAttentionCode {
public:
  Forward(const GpuAttention &kind, gpu::GPUModuleOp module) : GpuAttentionCode(kind, "attention_forward", module) {}

  void emit();

private:
  static constexpr int64_t each = GpuTiles::each;

  /// What is known of a thread's four queries after some tiles: the largest scores, the thread's share of the sums of
  /// exponentials, and the sums of values.
  struct State {
    Values largest, totals, sums;

    Values all() const {
      Values values(largest);
      values.append(totals);
      values.append(sums);
      return values;
    }
    static State of(ValueRange values) {
      return {Values(values.take_front(each)), Values(values.slice(each, each)), Values(values.drop_front(2 * each))};
    }
  };
  State addTile(State state, Value firstKey);
  /// Turns a row of scores into probabilities relative to the largest score so far.
  void addRow(State &state, int64_t row, std::array<Value, 4> &scores, ArrayRef<Value> positions);
  void finish(const State &state);

  Value firstQuery;
  GpuHead head;
  GpuQueries own;
};

void Forward::emit() {
  // The last queries see the most keys where attention is causal: their blocks begin first.
  Value heads = code.mul(scalar(Batches), code.mul(scalar(Groups), scalar(Repeats)));
  Value tiles = code.tiles(scalar(Queries));
  Value tile = code.minus(code.minus(tiles, code.integer(1)), code.quotient(code.block, heads));
  head = headOfQueries(code.rest(code.block, heads));
  firstQuery = code.mul(tile, code.integer(GpuTiles::size));
  own = queries(code.add(firstQuery, code.mul(code.y, code.integer(each))), head);
  Value limit = kind.causal ? largestLimit(firstQuery) : Value();

  State state{Values(each, minusInfinity), Values(each, code.real(0)), code.noSums()};
  Values last = code.loop(code.integer(0), code.tiles(scalar(Keys)), state.all(), [&](Value tile, ValueRange before) {
    Value firstKey = code.mul(tile, code.integer(GpuTiles::size));
    if (!kind.causal)
      return addTile(State::of(before), firstKey).all();
    return code.whenElse(
        code.less(limit, smallestPosition(firstKey)), [&] { return Values(before); },
        [&] { return addTile(State::of(before), firstKey).all(); });
  });
  finish(State::of(last));
}

Forward::State Forward::addTile(State state, Value firstKey) {
  GpuPatch scores = code.products(rows(Q, QStrides, head), firstQuery, rows(K, KStrides, head), firstKey);
  std::array<Value, 4> positions = keyPositions(code.add(firstKey, code.mul(code.x, code.integer(each))));
  for (int64_t i = 0; i < each; ++i)
    addRow(state, i, scores[i], positions);
  code.storeWeights(scores);
  code.addProduct(state.sums, rows(V, VStrides, head), firstKey);
  return state;
}

void Forward::addRow(State &state, int64_t row, std::array<Value, 4> &scores, ArrayRef<Value> positions) {
  auto larger = [&](Value a, Value b) -> Value { return arith::MaximumFOp::create(code, code.loc, a, b); };
  Value before = state.largest[row], now;
  for (int64_t j = 0; j < each; ++j) {
    scores[j] = maskedScore(scores[j], own.limits[row], positions[j]);
    now = now ? larger(now, scores[j]) : scores[j];
  }
  now = larger(before, code.acrossThreads(now, GpuTiles::side, larger));
  Value base = reference(now), correction = code.exponential(code.minus(before, base)), total;
  for (int64_t j = 0; j < each; ++j) {
    Value probability = code.exponential(code.minus(scores[j], base));
    total = total ? code.plus(total, probability) : probability;
    scores[j] = kind.dropout ? code.times(probability, keptFactor(own.draws[row], positions[j])) : probability;
  }
  state.largest[row] = now;
  state.totals[row] = code.fma(state.totals[row], correction, total);
  for (int64_t chunk = 0; chunk < code.chunks; ++chunk) {
    Value &sum = state.sums[chunk * each + row];
    sum = code.times(sum, code.splat4(correction));
  }
}

void Forward::finish(const State &state) {
  State result = state;
  Value first = code.add(firstQuery, code.mul(code.y, code.integer(each))), atHead = firstOf(head);
  for (int64_t i = 0; i < each; ++i) {
    Value total =
        code.acrossThreads(state.totals[i], GpuTiles::side, [&](Value a, Value b) { return code.plus(a, b); });
    Value sawNothing = code.equal(state.largest[i], minusInfinity), one = code.real(1);
    Value inverse = arith::DivFOp::create(code, code.loc, one, code.choose(sawNothing, one, total));
    for (int64_t chunk = 0; chunk < code.chunks; ++chunk) {
      Value &sum = result.sums[chunk * each + i];
      sum = code.times(sum, code.splat4(inverse));
    }
    Value query = code.add(first, code.integer(i));
    Value isOne = code.both(code.less(query, scalar(Queries)), code.equal(code.x, code.integer(0)));
    code.when(isOne, [&] {
      Value logarithm = math::LogOp::create(code, code.loc, total);
      Value sum = code.choose(sawNothing, minusInfinity, code.plus(state.largest[i], logarithm));
      code.store(sum, code.CodeBuilder::element(code.getF32Type(), buffer(LogSumExp), code.add(atHead, query)));
    });
  }
  code.storeSums(result.sums, rows(Out, OutStrides, head), firstQuery);
}

} // namespace

void emitAttentionForward(const GpuAttention &kind, gpu::GPUModuleOp module) { Forward(kind, module).emit(); }

} // namespace dtc
