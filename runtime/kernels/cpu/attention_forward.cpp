// Attention by tiles with online softmax (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention"): for each
// query the largest score so far, the sum of exponentials relative to it and the weighted sum of values are kept, and
// rescaled when a later tile has a larger score. Keys and values are packed for products of tiles, unless so few
// queries read them that packing would be most of the work, as in token-by-token generation with a cache: then they are
// read in place, once.
#include "runtime/kernels/cpu/attention.h"
#include "runtime/kernels/cpu/scratch.h"
#include "runtime/kernels/cpu/small_product.h"
#include "runtime/kernels/cpu/variant.h"

#include <math.h>

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// Up to this many queries read keys and values in place.
constexpr int64_t fewQueries = 8;

/// Rows of a cache are far apart, so hardware prefetchers do not help: prefetch the row this many rows ahead.
constexpr int64_t rowsAhead = 12, lineBytes = 64;
template <class T> void askFor(Rows<const T> rows, int64_t row, int64_t width) {
  const char *begin = reinterpret_cast<const char *>(rows.row(row + rowsAhead));
  for (int64_t byte = 0; byte < width * static_cast<int64_t>(sizeof(T)); byte += lineBytes)
    __builtin_prefetch(begin + byte);
}

/// out[n] = the inner product of a query and row n of `keys`.
template <int count, class T> void innerProducts(const float *query, Rows<const T> keys, int64_t width, float *out) {
  Vec sums[count] = {};
  for (int n = 0; n < count; ++n)
    askFor(keys, n, width);
  int64_t e = 0;
  for (; e + lanes <= width; e += lanes)
    for (int n = 0; n < count; ++n)
      sums[n] = fma(load(query + e), load(keys.row(n) + e), sums[n]);
  if (Mask rest = firstLanes(width - e); e < width)
    for (int n = 0; n < count; ++n)
      sums[n] = fma(load(query + e, rest), load(keys.row(n) + e, rest), sums[n]);
  for (int n = 0; n < count; ++n)
    out[n] = sum(sums[n]);
}

/// The state of one head of elements T while it is computed.
template <class T> class ForwardHead {
public:
  static int64_t room(const AttentionArgs &args) {
    return args.paddedKeys() * (args.width + args.paddedWidth()) + queryTile * (keyTile + 2 * args.paddedWidth() + 2) +
           128;
  }

  ForwardHead(const AttentionArgs &args, const KeyPositions &positions, const HeadDropout &dropout, Parts parts)
      : args(args), positions(positions), dropout(dropout), keys(parts.take(args.paddedKeys() * args.width)),
        values(parts.take(args.paddedKeys() * args.paddedWidth())), scores(parts.take(queryTile * keyTile)),
        sums(parts.take(queryTile * args.paddedWidth())), largest(parts.take(queryTile)), totals(parts.take(queryTile)),
        queries(parts.take(queryTile * args.paddedWidth())) {}

  void run(int64_t b, Rows<const T> q, Rows<const T> k, Rows<const T> v, Rows<T> out, float *lse) {
    keyRows = k, valueRows = v;
    if (!readsRows()) {
      packTransposed(args, k, keys);
      packPadded(args, v, args.keys, args.paddedKeys(), values);
    }
    for (int64_t first = 0; first < args.queries; first += queryTile) {
      int64_t count = smaller(queryTile, args.queries - first);
      runQueries(b, widened({q.row(first), q.stride}, count), first, count);
      finish(count, {out.row(first), out.stride}, lse + first);
    }
  }

private:
  bool readsRows() const { return args.queries <= fewQueries; }

  /// scores[i][j] = query i times key j of a tile.
  void multiplyKeys(Rows<const float> q, int64_t count, int64_t tile, int64_t visible) {
    if (!readsRows())
      return smallProduct<false>({q.data, q.stride, 1}, keys + tile * keyTile * args.width, keyTile, count, visible,
                                 args.width, scores, keyTile);
    int64_t first = tile * keyTile, there = smaller(visible, args.keys - first);
    constexpr int64_t atOnce = 4;
    for (int64_t i = 0; i < count; ++i) {
      float *row = scores + i * keyTile;
      int64_t j = 0;
      for (; j + atOnce <= there; j += atOnce)
        innerProducts<atOnce>(q.row(i), Rows<const T>{keyRows.row(first + j), keyRows.stride}, args.width, row + j);
      for (; j < there; ++j)
        innerProducts<1>(q.row(i), Rows<const T>{keyRows.row(first + j), keyRows.stride}, args.width, row + j);
      clear(row + there, visible - there);
    }
  }

  /// sums[i] += the values of a tile by the probabilities of query i.
  void addValues(int64_t count, int64_t tile, int64_t visible) {
    int64_t width = args.paddedWidth();
    if (!readsRows())
      return smallProduct<true>({scores, keyTile, 1}, values + tile * keyTile * width, width, count, width, visible,
                                sums, width);
    int64_t first = tile * keyTile, there = smaller(visible, args.keys - first);
    Rows<const T> rows = {valueRows.row(first), valueRows.stride};
    constexpr int64_t block = 4 * lanes;
    for (int64_t i = 0; i < count; ++i) {
      int64_t e = 0;
      for (; e + block <= args.width; e += block)
        addColumns<block / lanes>(scores + i * keyTile, rows, there, e, sums + i * width + e);
      for (; e < args.width; e += lanes)
        addColumns<1>(scores + i * keyTile, rows, there, e, sums + i * width + e);
    }
  }

  /// Adds the weighted sum of rows to the columns from `e` on.
  template <int vecs> void addColumns(const float *weights, Rows<const T> rows, int64_t count, int64_t e, float *out) {
    Mask mask = firstLanes(smaller(lanes, args.width - e)); // only for the last vector of columns
    Vec totals[vecs];
    for (int v = 0; v < vecs; ++v)
      totals[v] = load(out + v * lanes);
    for (int64_t j = 0; j < count; ++j) {
      Vec weight = splat(weights[j]);
      if (e == 0)
        askFor(rows, j, args.width);
      for (int v = 0; v < vecs; ++v)
        totals[v] = fma(weight, vecs == 1 ? load(rows.row(j) + e, mask) : load(rows.row(j) + e + v * lanes), totals[v]);
    }
    for (int v = 0; v < vecs; ++v)
      store(out + v * lanes, totals[v]);
  }

  /// These rows in f32: where they are, or a copy.
  Rows<const float> widened(Rows<const T> q, int64_t count) {
    if constexpr (__is_same(T, float)) {
      return q;
    } else {
      packPadded(args, q, count, count, queries);
      return {queries, args.paddedWidth()};
    }
  }

  void runQueries(int64_t b, Rows<const float> q, int64_t first, int64_t count) {
    int64_t width = args.paddedWidth();
    Bounds bounds(args, b, first, count);
    clear(sums, count * width);
    for (int64_t i = 0; i < count; ++i) {
      largest[i] = -infinity;
      totals[i] = 0;
    }
    for (int64_t tile = 0; tile < args.keyTiles(); ++tile) {
      int64_t visible = positions.visible(tile, bounds);
      if (visible == 0)
        continue;
      multiplyKeys(q, count, tile, visible);
      bool masked = positions.needsMask(tile, bounds);
      for (int64_t i = 0; i < count; ++i)
        addRow(b, first + i, i, tile, visible, masked);
      addValues(count, tile, visible);
    }
  }

  /// Turns a row of scores into probabilities relative to the largest score so far.
  void addRow(int64_t b, int64_t query, int64_t i, int64_t tile, int64_t visible, bool masked) {
    float *row = scores + i * keyTile;
    const int32_t *keyPositions = positions.of(tile);
    Vec top = splat(largest[i]);
    for (int64_t j = 0; j < visible; j += lanes) {
      Vec score = scaledScores(args, row + j);
      if (masked)
        score = maskScores(score, keyPositions + j, args.limit(query), args.floor(b, query));
      store(row + j, score);
      top = maximum(score, top);
    }
    float before = largest[i], now = dtc::kernels::DTC_KERNEL_LEVEL::largest(top);
    // For a query that has seen no key yet, any finite reference makes its exponentials zero.
    float reference = now == -infinity ? 0.0f : now;
    Vec total = splat(0.0f);
    for (int64_t j = 0; j < visible; j += lanes) {
      Vec probability = exponential(load(row + j) - splat(reference));
      total += probability;
      if (dropout.active)
        probability *= dropout.factors(args.qPositions[query], keyPositions + j);
      store(row + j, probability);
    }
    Vec correction = exponential(splat(before - reference));
    for (int64_t e = 0; e < args.paddedWidth(); e += lanes)
      store(sums + i * args.paddedWidth() + e, load(sums + i * args.paddedWidth() + e) * correction);
    totals[i] = totals[i] * correction[0] + sum(total);
    largest[i] = now;
  }

  void finish(int64_t count, Rows<T> out, float *lse) {
    int64_t width = args.paddedWidth();
    for (int64_t i = 0; i < count; ++i) {
      bool sawNothing = largest[i] == -infinity;
      lse[i] = sawNothing ? -infinity : largest[i] + logf(totals[i]);
      Vec factor = splat(sawNothing ? 0.0f : 1 / totals[i]);
      for (int64_t e = 0; e < width; e += lanes)
        store(sums + i * width + e, load(sums + i * width + e) * factor);
    }
    unpackPadded(args, sums, count, out);
  }

  const AttentionArgs &args;
  const KeyPositions &positions;
  const HeadDropout &dropout;
  Rows<const T> keyRows = {}, valueRows = {};
  float *keys;    // [tile][e][key in tile]
  float *values;  // [key][paddedWidth]
  float *scores;  // [queryTile][keyTile]
  float *sums;    // [queryTile][paddedWidth]: weighted values
  float *largest; // [queryTile]: largest score so far
  float *totals;  // [queryTile]: sum of exponentials
  float *queries; // [queryTile][paddedWidth]: widened
};

template <class T> void forwardOf(void *const *buffers, const AttentionScalars &scalars, int64_t begin, int64_t end) {
  AttentionArgs args(buffers, scalars);
  Parts parts = {threadScratch(KeyPositions::room(args) + ForwardHead<T>::room(args))};
  KeyPositions positions(args, parts);
  for (int64_t at = begin; at < end; ++at) {
    int64_t r = at % args.repeats, g = at / args.repeats % args.groups, b = at / args.repeats / args.groups;
    HeadDropout dropout(args, b, g, r);
    ForwardHead<T>(args, positions, dropout, parts)
        .run(b, rowsOf<const T>(buffers[0], args.qStrides, b, g, r), rowsOf<const T>(buffers[1], args.kStrides, b, g),
             rowsOf<const T>(buffers[2], args.vStrides, b, g), rowsOf<T>(args.rest[0], args.outStrides, b, g, r),
             static_cast<float *>(args.rest[1]) + at * args.queries);
  }
}

} // namespace

void attentionForward(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto args = abi::library::load<AttentionScalars>(scalars);
  withElement(args.element, [&](auto element) { forwardOf<decltype(element)>(buffers, args, begin, end); });
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
