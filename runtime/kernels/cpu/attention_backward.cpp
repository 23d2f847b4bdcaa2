// The gradient of attention by tiles. Probabilities are recomputed from the scores and the log-sum-exp of the forward
// kernel. With D the dropout factors, P the probabilities and o the output,
//   dV = (D P)^T dO,   dP = D (dO V^T),   dS = scale P (dP - rowsum(dO o)),   dQ = dS K,   dK = dS^T Q
// and with a soft cap c of the scores s, dS is multiplied by the slope 1 - (s / c)^2,
// where juxtaposition of D, P and of bracketed terms is elementwise (Dao et al. 2022, "FlashAttention", appendix B.4).
#include "runtime/kernels/cpu/attention.h"
#include "runtime/kernels/cpu/scratch.h"
#include "runtime/kernels/cpu/small_product.h"
#include "runtime/kernels/cpu/variant.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// The data of one query head.
template <class T> struct QueryHead {
  int64_t b;
  Rows<const T> q, out, dOut;
  const float *lse;
  Rows<T> dq;
};

/// One head of keys and values, of elements T, with the query heads that share it.
template <class T> class BackwardHead {
public:
  static int64_t room(const AttentionArgs &args) {
    return args.paddedKeys() * (2 * args.width + 3 * args.paddedWidth()) +
           queryTile * (2 * keyTile + 3 * args.paddedWidth() + 1) + 256;
  }

  BackwardHead(const AttentionArgs &args, const KeyPositions &positions, Parts parts)
      : args(args), positions(positions), width(args.paddedWidth()),
        keysTransposed(parts.take(args.paddedKeys() * args.width)),
        valuesTransposed(parts.take(args.paddedKeys() * args.width)), keys(parts.take(args.paddedKeys() * width)),
        dKeys(parts.take(args.paddedKeys() * width)), dValues(parts.take(args.paddedKeys() * width)),
        scores(parts.take(queryTile * keyTile)), dScores(parts.take(queryTile * keyTile)),
        queries(parts.take(queryTile * width)), dOut(parts.take(queryTile * width)),
        dQueries(parts.take(queryTile * width)), deltas(parts.take(queryTile)) {}

  void begin(Rows<const T> k, Rows<const T> v) {
    packTransposed(args, k, keysTransposed);
    packTransposed(args, v, valuesTransposed);
    packPadded(args, k, args.keys, args.paddedKeys(), keys);
    clear(dKeys, args.paddedKeys() * width);
    clear(dValues, args.paddedKeys() * width);
  }

  void add(const QueryHead<T> &head, const HeadDropout &dropout) {
    for (int64_t first = 0; first < args.queries; first += queryTile)
      addQueries(head, dropout, first, smaller(queryTile, args.queries - first));
  }

  void finish(Rows<T> dk, Rows<T> dv) {
    unpackPadded(args, dKeys, args.keys, dk);
    unpackPadded(args, dValues, args.keys, dv);
  }

private:
  void addQueries(const QueryHead<T> &head, const HeadDropout &dropout, int64_t first, int64_t count) {
    packPadded<T>(args, {head.q.row(first), head.q.stride}, count, count, queries);
    packPadded<T>(args, {head.dOut.row(first), head.dOut.stride}, count, count, dOut);
    for (int64_t i = 0; i < count; ++i)
      deltas[i] = dotWithOut(i, head.out.row(first + i));
    clear(dQueries, count * width);
    Bounds bounds(args, head.b, first, count);
    for (int64_t tile = 0; tile < args.keyTiles(); ++tile)
      if (int64_t visible = positions.visible(tile, bounds)) {
        scoreTile(tile, count, visible);
        bool masked = positions.needsMask(tile, bounds);
        for (int64_t i = 0; i < count; ++i)
          differentiateRow(head, dropout, first + i, i, tile, visible, masked);
        addTile(tile, count, visible);
      }
    unpackPadded<T>(args, dQueries, count, {head.dq.row(first), head.dq.stride});
  }

  float dotWithOut(int64_t i, const T *out) const {
    Vec total = splat(0.0f);
    for (int64_t e = 0; e < args.width; e += lanes)
      total = fma(load(dOut + i * width + e), load(out + e, firstLanes(smaller(lanes, args.width - e))), total);
    return sum(total);
  }

  /// scores = Q K^T, dScores = dO V^T.
  void scoreTile(int64_t tile, int64_t count, int64_t visible) {
    int64_t at = tile * keyTile * args.width;
    smallProduct<false>({queries, width, 1}, keysTransposed + at, keyTile, count, visible, args.width, scores, keyTile);
    smallProduct<false>({dOut, width, 1}, valuesTransposed + at, keyTile, count, visible, args.width, dScores, keyTile);
  }

  /// Row i of scores becomes D P, row i of dScores becomes dS.
  void differentiateRow(const QueryHead<T> &head, const HeadDropout &dropout, int64_t query, int64_t i, int64_t tile,
                        int64_t visible, bool masked) {
    float *row = scores + i * keyTile, *dRow = dScores + i * keyTile;
    const int32_t *keyPositions = positions.of(tile);
    Vec scale = splat(args.scale), delta = splat(deltas[i]);
    // For a query that saw no key, all scores are masked; any finite reference makes the probabilities zero.
    Vec reference = splat(head.lse[query] == -infinity ? 0.0f : head.lse[query]);
    for (int64_t j = 0; j < visible; j += lanes) {
      Vec score = scaledScores(args, row + j), dProbability = load(dRow + j), slope = scale;
      if (args.softcap != 0) {
        Vec share = score * splat(1 / args.softcap);
        slope = scale * (splat(1.0f) - share * share);
      }
      if (masked)
        score = maskScores(score, keyPositions + j, args.limit(query), args.floor(head.b, query));
      Vec probability = exponential(score - reference), kept = probability;
      if (dropout.active) {
        Vec factors = dropout.factors(args.qPositions[query], keyPositions + j);
        kept *= factors;
        dProbability *= factors;
      }
      store(row + j, kept);
      store(dRow + j, slope * probability * (dProbability - delta));
    }
  }

  void addTile(int64_t tile, int64_t count, int64_t visible) {
    int64_t at = tile * keyTile * width;
    smallProduct<true>({scores, 1, keyTile}, dOut, width, visible, width, count, dValues + at, width);
    smallProduct<true>({dScores, 1, keyTile}, queries, width, visible, width, count, dKeys + at, width);
    smallProduct<true>({dScores, keyTile, 1}, keys + at, width, count, width, visible, dQueries, width);
  }

  const AttentionArgs &args;
  const KeyPositions &positions;
  int64_t width;                            // padded
  float *keysTransposed, *valuesTransposed; // [tile][e][key in tile]
  float *keys, *dKeys, *dValues;            // [key][width]
  float *scores, *dScores;                  // [queryTile][keyTile]
  float *queries, *dOut, *dQueries;         // [queryTile][width]
  float *deltas;                            // [queryTile]: rowsum(dO o)
};

using Scalars = abi::library::AttentionBackwardScalars;

template <class T> void backwardOf(void *const *buffers, const Scalars &scalars, int64_t begin, int64_t end) {
  AttentionArgs args(buffers, scalars);
  Parts parts = {threadScratch(KeyPositions::room(args) + BackwardHead<T>::room(args))};
  KeyPositions positions(args, parts);
  BackwardHead<T> head(args, positions, parts);
  for (int64_t at = begin; at < end; ++at) {
    int64_t g = at % args.groups, b = at / args.groups;
    head.begin(rowsOf<const T>(buffers[1], args.kStrides, b, g), rowsOf<const T>(buffers[2], args.vStrides, b, g));
    for (int64_t r = 0; r < args.repeats; ++r)
      head.add({b, rowsOf<const T>(buffers[0], args.qStrides, b, g, r),
                rowsOf<const T>(args.rest[0], args.outStrides, b, g, r),
                rowsOf<const T>(args.rest[2], scalars.dOut, b, g, r),
                static_cast<const float *>(args.rest[1]) + (at * args.repeats + r) * args.queries,
                rowsOf<T>(args.rest[3], scalars.dQ, b, g, r)},
               HeadDropout(args, b, g, r));
    head.finish(rowsOf<T>(args.rest[4], scalars.dK, b, g), rowsOf<T>(args.rest[5], scalars.dV, b, g));
  }
}

} // namespace

void attentionBackward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto args = abi::library::load<Scalars>(scalars);
  withElement(args.element, [&](auto element) { backwardOf<decltype(element)>(buffers, args, begin, end); });
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
