// Code shared by attention's forward and backward kernels: arguments, tiles of keys, masks and dropout. Compiled per
// level.
//
// Both kernels iterate over tiles of `queryTile` queries by `keyTile` keys and hold the scores of only one tile. A key
// is visible to a query if its position is at most the query's limit (its own position in causal attention, else any)
// and above its floor (its own position minus the window, or the position before its start, if there is one). Keys that
// pad the last tile have the one position above every limit, so they need no separate test.
#pragma once

#include "runtime/abi/library/attention.h"
#include "runtime/abi/random.h"
#include "runtime/kernels/cpu/pack.h"
#include "runtime/kernels/cpu/simd.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

constexpr int64_t queryTile = 32, keyTile = 64;
constexpr int32_t paddingPosition = INT32_MAX;
constexpr float infinity = __builtin_inff();

inline int64_t roundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

using abi::library::AttentionScalars, abi::library::QueryStrides, abi::library::KeyStrides;

/// Arguments that both directions have.
struct AttentionArgs {
  int64_t batches, queries, keys, groups, repeats, width;
  QueryStrides qStrides;
  KeyStrides kStrides, vStrides;
  QueryStrides outStrides;
  float scale;
  bool causal;
  double dropout;
  int64_t window;
  float softcap;
  const int32_t *qPositions, *kPositions, *key;
  int64_t site, firstSample, firstGroup, firstRepeat, allGroups, allRepeats, length;
  const int32_t *starts; ///< [batch, queries], or null
  void *const *rest;     ///< the buffers after those that both directions read

  AttentionArgs(void *const *buffers, const AttentionScalars &s)
      : batches(s.B), queries(s.S), keys(s.T), groups(s.G), repeats(s.R), width(s.E), qStrides(s.q), kStrides(s.k),
        vStrides(s.v), outStrides(s.out), scale(static_cast<float>(s.scale)), causal(s.causal != 0), dropout(s.dropout),
        window(s.window), softcap(static_cast<float>(s.softcap)), qPositions(static_cast<const int32_t *>(buffers[3])),
        kPositions(static_cast<const int32_t *>(buffers[4])), key(static_cast<const int32_t *>(buffers[5])),
        site(s.site), firstSample(s.firstSample), firstGroup(s.firstGroup), firstRepeat(s.firstRepeat),
        allGroups(s.allGroups), allRepeats(s.allRepeats), length(s.length),
        starts(s.starts ? static_cast<const int32_t *>(buffers[6]) : nullptr), rest(buffers + 6 + s.starts) {}

  int64_t keyTiles() const { return (keys + keyTile - 1) / keyTile; }
  int64_t paddedKeys() const { return keyTiles() * keyTile; }
  int64_t paddedWidth() const { return roundUp(width, lanes); }
  int32_t limit(int64_t query) const { return causal ? qPositions[query] : paddingPosition - 1; }
  int32_t floor(int64_t b, int64_t query) const {
    int64_t least = INT32_MIN;
    if (window)
      least = larger(least, qPositions[query] - window);
    if (starts)
      least = larger<int64_t>(least, static_cast<int64_t>(starts[b * queries + query]) - 1);
    return static_cast<int32_t>(least);
  }
};

/// Rows of one head: row i at data + i * stride.
template <class T> struct Rows {
  T *data;
  int64_t stride;

  T *row(int64_t i) const { return data + i * stride; }
};

/// The rows of head (b, g) of keys, or (b, g, r) of queries.
template <class T> Rows<T> rowsOf(void *buffer, const KeyStrides &strides, int64_t b, int64_t g) {
  return {static_cast<T *>(buffer) + b * strides.b + g * strides.g, strides.t};
}
template <class T> Rows<T> rowsOf(void *buffer, const QueryStrides &strides, int64_t b, int64_t g, int64_t r) {
  return {static_cast<T *>(buffer) + b * strides.b + g * strides.g + r * strides.r, strides.s};
}

/// Allocates parts of a block of scratch memory.
struct Parts {
  float *at;

  float *take(int64_t count) {
    float *part = at;
    at += roundUp(count, 16);
    return part;
  }
};

/// The limits and floors of a tile of queries.
struct Bounds {
  int32_t smallestLimit, largestLimit, smallestFloor, largestFloor;

  Bounds(const AttentionArgs &args, int64_t b, int64_t first, int64_t count)
      : smallestLimit(args.limit(first)), largestLimit(args.limit(first)), smallestFloor(args.floor(b, first)),
        largestFloor(args.floor(b, first)) {
    for (int64_t i = first + 1; i < first + count; ++i) {
      smallestLimit = smaller(smallestLimit, args.limit(i));
      largestLimit = larger(largestLimit, args.limit(i));
      smallestFloor = smaller(smallestFloor, args.floor(b, i));
      largestFloor = larger(largestFloor, args.floor(b, i));
    }
  }
};

/// The positions of the keys, and the bounds on them that decide which tiles are computed.
class KeyPositions {
public:
  /// The scratch size in floats.
  static int64_t room(const AttentionArgs &args) { return 4 * args.paddedKeys() + 80; }

  KeyPositions(const AttentionArgs &args, Parts &parts)
      : positions(reinterpret_cast<int32_t *>(parts.take(args.paddedKeys()))),
        least(reinterpret_cast<int32_t *>(parts.take(args.paddedKeys() / lanes))),
        fewest(reinterpret_cast<int32_t *>(parts.take(args.keyTiles()))),
        most(reinterpret_cast<int32_t *>(parts.take(args.keyTiles()))) {
    for (int64_t t = 0; t < args.paddedKeys(); ++t)
      positions[t] = t < args.keys ? args.kPositions[t] : paddingPosition;
    for (int64_t i = 0; i < args.paddedKeys() / lanes; ++i) {
      least[i] = positions[i * lanes];
      for (int64_t j = 1; j < lanes; ++j)
        least[i] = smaller(least[i], positions[i * lanes + j]);
    }
    for (int64_t i = 0; i < args.keyTiles(); ++i) {
      fewest[i] = most[i] = positions[i * keyTile];
      for (int64_t j = 1; j < keyTile; ++j) {
        fewest[i] = smaller(fewest[i], positions[i * keyTile + j]);
        most[i] = larger(most[i], positions[i * keyTile + j]);
      }
    }
  }

  const int32_t *of(int64_t tile) const { return positions + tile * keyTile; }

  /// How many keys of a tile, a multiple of lanes, must be computed for these queries: up to the last vector that has a
  /// key below some limit. 0: the tile is skipped.
  int64_t visible(int64_t tile, const Bounds &queries) const {
    if (most[tile] <= queries.smallestFloor)
      return 0;
    int64_t count = keyTile;
    while (count > 0 && least[(tile * keyTile + count) / lanes - 1] > queries.largestLimit)
      count -= lanes;
    return count;
  }

  /// Whether some key of the tile is invisible to some of these queries.
  bool needsMask(int64_t tile, const Bounds &queries) const {
    return most[tile] > queries.smallestLimit || fewest[tile] <= queries.largestFloor;
  }

private:
  int32_t *positions, *least; ///< of each key; the least of each vector of keys
  int32_t *fewest, *most;     ///< of each tile
};

using Ints = int32_t __attribute__((vector_size(lanes * 4)));
using Bits = uint32_t __attribute__((vector_size(lanes * 4)));

inline Ints loadInts(const int32_t *p) {
  Ints v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

/// Scaled scores, soft-capped if the attention is.
inline Vec scaledScores(const AttentionArgs &args, const float *products) {
  Vec scores = load(products) * splat(args.scale);
  return args.softcap == 0 ? scores : splat(args.softcap) * hyperbolicTangent(scores * splat(1 / args.softcap));
}

/// The score if the key is visible, else minus infinity.
inline Vec maskScores(Vec scores, const int32_t *positions, int32_t limit, int32_t floor) {
  Ints keys = loadInts(positions);
  Bits visible = (Bits)(keys <= limit) & (Bits)(keys > floor);
  return (Vec)(((Bits)scores & visible) | ((Bits)splat(-infinity) & ~visible));
}

/// The dropout draws of one head of one sample: random::uniform of the index that runtime/abi/library/attention.h
/// states, on vectors.
class HeadDropout {
public:
  HeadDropout(const AttentionArgs &args, int64_t b, int64_t g, int64_t r)
      : active(args.dropout > 0), keptFactor(static_cast<float>(1 / (1 - args.dropout))),
        threshold(static_cast<uint32_t>(__builtin_ceil(args.dropout * 0x1p24))),
        stream(random::stream(static_cast<uint32_t>(args.key[0]), static_cast<uint32_t>(args.key[1]),
                              static_cast<uint32_t>(args.site))),
        head(((args.key[2] + args.firstSample + b) * args.allGroups + args.firstGroup + g) * args.allRepeats +
             args.firstRepeat + r),
        length(args.length) {}

  const bool active;

  /// The factors for the probabilities of one query and these keys: 0, or 1 / (1 - p).
  Vec factors(int32_t queryPosition, const int32_t *keyPositions) const {
    uint64_t first = static_cast<uint64_t>((head * length + queryPosition) * length);
    Bits low = (Bits)loadInts(keyPositions) + static_cast<uint32_t>(first);
    Bits carry = (Bits)(low < static_cast<uint32_t>(first)) & 1u;
    Bits high = carry + static_cast<uint32_t>(first >> 32);
    Bits bits = random::mix(random::mix(low ^ stream) + high + (stream << 1 | 1));
    // uniform < p, in integers: (bits >> 8) < p 2^24.
    Bits kept = (Bits)((bits >> 8) >= threshold);
    return (Vec)((Bits)splat(keptFactor) & kept);
  }

private:
  float keptFactor;
  uint32_t threshold, stream;
  int64_t head, length;
};

/// Transposes the keys of each tile: out[tile][e][key in tile], zeros in place of missing keys.
template <class T> void packTransposed(const AttentionArgs &args, Rows<const T> rows, float *out) {
  for (int64_t tile = 0; tile < args.keyTiles(); ++tile)
    packRows(rows.row(tile * keyTile), rows.stride, smaller(keyTile, args.keys - tile * keyTile), keyTile, args.width,
             out + tile * keyTile * args.width);
}

/// out[i][0, paddedWidth) = row i, padded with zeros; zeros for rows up to `paddedCount`.
template <class T>
void packPadded(const AttentionArgs &args, Rows<const T> rows, int64_t count, int64_t paddedCount, float *out) {
  int64_t width = args.paddedWidth();
  for (int64_t i = 0; i < paddedCount; ++i)
    for (int64_t e = 0; e < width; e += lanes) {
      Mask mask = firstLanes(larger<int64_t>(0, smaller(lanes, args.width - e)));
      store(out + i * width + e, i < count ? load(rows.row(i) + e, mask) : splat(0.0f));
    }
}

/// The first `width` of each padded row.
template <class T> void unpackPadded(const AttentionArgs &args, const float *in, int64_t count, Rows<T> rows) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t e = 0; e < args.width; e += lanes)
      store(rows.row(i) + e, load(in + i * args.paddedWidth() + e), firstLanes(smaller(lanes, args.width - e)));
}

inline void clear(float *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = 0;
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
