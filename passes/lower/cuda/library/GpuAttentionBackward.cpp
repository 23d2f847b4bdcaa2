// The gradient of attention. Probabilities P are recomputed from the scores and the log-sum-exp of the forward kernel,
// both in base 2.
// With D the dropout factors, and o the output,
//   dV = (D P)^T dO,   dP = D (dO V^T),   dS = P (dP - rowsum(dO o)),   dQ = scale dS K,   dK = scale dS^T Q
// where juxtaposition of D, P and of bracketed terms is elementwise (Dao et al. 2022, "FlashAttention", appendix B.4).
#include "passes/lower/cuda/library/GpuAttentionCode.h"

using namespace mlir;

namespace dtc {
namespace {

/// Threads of a row of Deltas.
constexpr int64_t side = 16;

/// rowsum(dO o) of all queries of all heads, a row by 16 threads.
class Deltas : public GpuAttentionCode {
public:
  Deltas(const GpuAttention &kind, gpu::GPUModuleOp module) : GpuAttentionCode(kind, "attention_deltas", module) {}

  void emit() {
    Value heads = code.mul(scalar(&Scalars::B), code.mul(scalar(&Scalars::G), scalar(&Scalars::R)));
    Value count = code.mul(heads, scalar(&Scalars::S));
    Value x = code.rest(code.thread, code.integer(side)), y = code.quotient(code.thread, code.integer(side));
    Value row = code.add(code.mul(code.block, code.integer(gpuFmaThreads / side)), y);
    // Instead of rows beyond the end the last one is read.
    Value at = code.smaller(row, code.minus(count, code.integer(1)));
    GpuHead head = headOfQueries(code.quotient(at, scalar(&Scalars::S)));
    Value query = code.rest(at, scalar(&Scalars::S)), sum = code.real(0);
    GpuRows out = rows(Out, &Scalars::out, head), dOut = rows(DOut, &Scalars::dOut, head);
    for (int64_t first = 0; first < kind.width; first += side) {
      Value column = code.add(x, code.integer(first)), exists = code.less(column, code.integer(kind.width));
      auto element = [&](const GpuRows &rows) {
        Value known = code.choose(exists, column, code.integer(0));
        return code.loadElement(rows.data, code.add(code.mul(query, rows.stride), known));
      };
      Value product = code.fma(element(out), element(dOut), sum);
      sum = code.choose(exists, product, sum);
    }
    sum = code.acrossThreads(sum, side, [&](Value a, Value b) { return code.plus(a, b); });
    code.when(code.both(code.less(row, count), code.equal(x, code.integer(0))),
              [&] { code.store(sum, code.CodeBuilder::element(code.getF32Type(), buffer(Scratch), row)); });
  }
};

/// What dQ and the gradients of keys and values have in common.
class Gradient : public GpuAttentionCode {
public:
  using GpuAttentionCode::GpuAttentionCode;

protected:
  /// A product of a query's and a key's rows becomes D P, one of dO's and a value's dS.
  void differentiate(Value &score, Value &dProbability, const GpuQuery &query, Value keyPosition) {
    Value share, masked = maskedScore(score, query, keyPosition, &share);
    Value probability = code.powerOfTwo(code.minus(masked, reference(query.logSumExp)));
    score = probability;
    if (kind.dropout) {
      Value factor = keptFactor(query.draw, keyPosition);
      score = code.times(probability, factor);
      dProbability = code.times(dProbability, factor);
    }
    dProbability = code.times(probability, code.minus(dProbability, query.delta));
    if (share) // the slope of the soft cap
      dProbability = code.times(dProbability, code.minus(code.real(1), code.times(share, share)));
  }

  /// Of dQ and dK, whose sums are without the scale.
  void storeScaled(MutableArrayRef<Value> sums, const GpuRows &matrix, Value first) {
    for (int64_t i = 0; i < code.patchRows(); ++i)
      code.scaleRow(sums, i, scale());
    code.storeSums(sums, matrix, first);
  }
};

/// For 64 queries of a head.
class QueryGradient : public Gradient {
public:
  QueryGradient(const GpuAttention &kind, gpu::GPUModuleOp module) : Gradient(kind, "attention_d_q", module) {}

  void emit() {
    Value heads = code.mul(scalar(&Scalars::B), code.mul(scalar(&Scalars::G), scalar(&Scalars::R)));
    Value tile =
        code.minus(code.minus(code.rowTiles(scalar(&Scalars::S)), code.integer(1)), code.quotient(code.block, heads));
    head = headOfQueries(code.rest(code.block, heads));
    firstQuery = code.mul(tile, code.integer(GpuTiles::size));
    own = queriesOfRows(firstQuery, head);
    heldQueries = code.hold(rows(Q, &Scalars::q, head), firstQuery, /*keep=*/true);
    heldDOut = code.hold(rows(DOut, &Scalars::dOut, head), firstQuery, /*keep=*/true);
    Values sums =
        code.walk(tilesOfKeys(head, firstQuery), code.noSums(),
                  [&](Value, const GpuTilePair &tiles, ValueRange sums) { return addTile(Values(sums), tiles); });
    storeScaled(sums, rows(DQ, &Scalars::dQ, head), firstQuery);
  }

private:
  Values addTile(Values sums, const GpuTilePair &tiles) {
    const auto &[keys, values] = tiles;
    GpuPatch scores = code.products(heldQueries, keys), dScores = code.products(heldDOut, values);
    for (int64_t j = 0; j < code.patchColumns(); ++j) {
      Value position = keyPosition(code.add(keys.first, code.columnOf(j)));
      for (int64_t i = 0; i < code.patchRows(); ++i)
        differentiate(scores[i][j], dScores[i][j], own[i], position);
    }
    code.addProduct(sums, dScores, keys);
    return sums;
  }

  Value firstQuery;
  GpuHead head;
  GpuHeld heldQueries, heldDOut;
  SmallVector<GpuQuery> own;
};

/// For 64 keys, and the queries of all heads that share them.
class KeyGradient : public Gradient {
public:
  KeyGradient(const GpuAttention &kind, gpu::GPUModuleOp module) : Gradient(kind, "attention_d_kv", module) {}

  void emit() {
    Value heads = code.mul(scalar(&Scalars::B), scalar(&Scalars::G));
    keysHead = headOfKeys(code.rest(code.block, heads));
    firstKey = code.mul(code.quotient(code.block, heads), code.integer(GpuTiles::size));
    for (int64_t i = 0; i < code.patchRows(); ++i)
      positions.push_back(keyPosition(code.add(firstKey, code.rowOf(i))));
    // Both sums of wide rows leave registers for one of them.
    bool keepBoth = kind.width <= 64;
    heldKeys = code.hold(rows(K, &Scalars::k, keysHead), firstKey, /*keep=*/true);
    heldValues = code.hold(rows(V, &Scalars::v, keysHead), firstKey, keepBoth);
    GpuWalk walk{code.mul(tilesOfHead(), scalar(&Scalars::R)), [&](Value number) -> GpuTilePair {
                   GpuHead head = headOf(number);
                   return {GpuTile{rows(Q, &Scalars::q, head), firstQueryOf(number)},
                           GpuTile{rows(DOut, &Scalars::dOut, head), firstQueryOf(number)}};
                 }};
    if (kind.causal)
      walk.isHidden = [&, keys = rangeOfKeys(firstKey)](Value number) {
        return isHidden(rangeOfQueries(firstQueryOf(number)), keys);
      };
    Values sums = code.noSums();
    sums.append(code.noSums());
    sums = code.walk(walk, sums, [&](Value number, const GpuTilePair &tiles, ValueRange sums) {
      return addTile(Values(sums), headOf(number), tiles);
    });
    MutableArrayRef<Value> all(sums);
    code.storeSums(all.take_front(sums.size() / 2), rows(DV, &Scalars::dV, keysHead), firstKey);
    storeScaled(all.drop_front(sums.size() / 2), rows(DK, &Scalars::dK, keysHead), firstKey);
  }

private:
  /// Steps are the tiles of the first head that shares the keys, then those of the next.
  Value tilesOfHead() { return code.columnTiles(scalar(&Scalars::S)); }
  GpuHead headOf(Value step) { return {keysHead.b, keysHead.g, code.quotient(step, tilesOfHead())}; }
  Value firstQueryOf(Value step) { return code.mul(code.rest(step, tilesOfHead()), code.integer(code.columns)); }

  Values addTile(Values sums, const GpuHead &head, const GpuTilePair &tiles) {
    const auto &[queries, dOut] = tiles;
    GpuPatch scores = code.products(heldKeys, queries), dScores = code.products(heldValues, dOut);
    for (int64_t j = 0; j < code.patchColumns(); ++j) {
      GpuQuery own = query(code.add(queries.first, code.columnOf(j)), head);
      for (int64_t i = 0; i < code.patchRows(); ++i)
        differentiate(scores[i][j], dScores[i][j], own, positions[i]);
    }
    MutableArrayRef<Value> all(sums);
    code.addProduct(all.take_front(sums.size() / 2), scores, dOut);
    code.addProduct(all.drop_front(sums.size() / 2), dScores, queries);
    return sums;
  }

  Value firstKey;
  GpuHead keysHead;
  GpuHeld heldKeys, heldValues;
  Values positions;
};

} // namespace

void emitAttentionBackward(const GpuAttention &kind, gpu::GPUModuleOp module) {
  Deltas(kind, module).emit();
  QueryGradient(kind, module).emit();
  KeyGradient(kind, module).emit();
}

} // namespace dtc
