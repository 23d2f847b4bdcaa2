// Attention, for 64 queries of a head: for each the largest score so far, the sum of exponentials relative to it and
// the weighted sum of values are kept, and rescaled when a later tile has a larger score (Milakov and Gimelshein 2018).
// Scores are those in base 2, so that exponentials are powers of two; the log-sum-exp that is stored is natural.
#include "passes/lower/cuda/library/GpuAttentionCode.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <numbers>

using namespace mlir;

namespace dtc {
namespace {

class Forward : public GpuAttentionCode {
public:
  Forward(const GpuAttention &kind, gpu::GPUModuleOp module) : GpuAttentionCode(kind, "attention_forward", module) {}

  void emit();

private:
  /// What is known of a thread's queries after some tiles: the largest scores, the thread's share of the sums of
  /// exponentials, and the sums of values.
  struct State {
    Values largest, totals, sums;

    Values all() const {
      Values values(largest);
      values.append(totals);
      values.append(sums);
      return values;
    }
  };
  State stateOf(ValueRange values) const {
    size_t rows = code.patchRows();
    return {Values(values.take_front(rows)), Values(values.slice(rows, rows)), Values(values.drop_front(2 * rows))};
  }
  State addTile(State state, const GpuTilePair &tiles);
  /// Turns a row of scores into probabilities relative to the largest score so far.
  void addRow(State &state, int64_t row, MutableArrayRef<Value> scores, ArrayRef<Value> positions);
  void finish(const State &state);

  Value firstQuery;
  GpuHead head;
  GpuHeld heldQueries;
  SmallVector<GpuQuery> own;
};

void Forward::emit() {
  // The last queries see the most keys where attention is causal: their blocks begin first.
  Value heads = code.mul(scalar(&Scalars::B), code.mul(scalar(&Scalars::G), scalar(&Scalars::R)));
  Value tiles = code.rowTiles(scalar(&Scalars::S));
  Value tile = code.minus(code.minus(tiles, code.integer(1)), code.quotient(code.block, heads));
  head = headOfQueries(code.rest(code.block, heads));
  firstQuery = code.mul(tile, code.integer(GpuTiles::size));
  own = queriesOfRows(firstQuery, head);
  heldQueries = code.hold(rows(Q, &Scalars::q, head), firstQuery, /*keep=*/true);

  size_t count = code.patchRows();
  State state{Values(count, minusInfinity), Values(count, code.real(0)), code.noSums()};
  Values last =
      code.walk(tilesOfKeys(head, firstQuery), state.all(), [&](Value, const GpuTilePair &tiles, ValueRange before) {
        return addTile(stateOf(before), tiles).all();
      });
  finish(stateOf(last));
}

Forward::State Forward::addTile(State state, const GpuTilePair &tiles) {
  const auto &[keys, values] = tiles;
  GpuPatch scores = code.products(heldQueries, keys);
  Values positions;
  for (int64_t j = 0; j < code.patchColumns(); ++j)
    positions.push_back(keyPosition(code.add(keys.first, code.columnOf(j))));
  for (int64_t i = 0; i < code.patchRows(); ++i)
    addRow(state, i, scores[i], positions);
  code.addProduct(state.sums, scores, values);
  return state;
}

void Forward::addRow(State &state, int64_t row, MutableArrayRef<Value> scores, ArrayRef<Value> positions) {
  auto larger = [&](Value a, Value b) -> Value { return arith::MaximumFOp::create(code, code.loc, a, b); };
  Value before = state.largest[row], now;
  for (auto [score, position] : llvm::zip(scores, positions)) {
    score = maskedScore(score, own[row], position);
    now = now ? larger(now, score) : score;
  }
  now = larger(before, code.acrossRow(now, larger));
  Value base = reference(now), correction = code.powerOfTwo(code.minus(before, base)), total;
  for (auto [score, position] : llvm::zip(scores, positions)) {
    Value probability = code.powerOfTwo(code.minus(score, base));
    total = total ? code.plus(total, probability) : probability;
    score = kind.dropout ? code.times(probability, keptFactor(own[row].draw, position)) : probability;
  }
  state.largest[row] = now;
  state.totals[row] = code.fma(state.totals[row], correction, total);
  code.scaleRow(state.sums, row, correction);
}

void Forward::finish(const State &state) {
  State result = state;
  Value atHead = firstOf(head);
  for (int64_t i = 0; i < code.patchRows(); ++i) {
    Value total = code.acrossRow(state.totals[i], [&](Value a, Value b) { return code.plus(a, b); });
    Value sawNothing = code.equal(state.largest[i], minusInfinity), one = code.real(1);
    code.scaleRow(result.sums, i, arith::DivFOp::create(code, code.loc, one, code.choose(sawNothing, one, total)));
    Value query = code.add(firstQuery, code.rowOf(i));
    Value isFirst = code.equal(code.columnOf(0), code.integer(0));
    code.when(code.both(code.less(query, scalar(&Scalars::S)), isFirst), [&] {
      Value logarithm = math::LogOp::create(code, code.loc, total);
      Value sum = code.fma(state.largest[i], code.real(std::numbers::ln2), logarithm);
      sum = code.choose(sawNothing, minusInfinity, sum);
      code.store(sum, code.CodeBuilder::element(code.getF32Type(), buffer(LogSumExp), code.add(atHead, query)));
    });
  }
  code.storeSums(result.sums, rows(Out, &Scalars::out, head), firstQuery);
}

} // namespace

void emitAttentionForward(const GpuAttention &kind, gpu::GPUModuleOp module) { Forward(kind, module).emit(); }

} // namespace dtc
