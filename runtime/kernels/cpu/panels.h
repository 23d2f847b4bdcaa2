// The layout of a product's operands in packed panels, by element type. Compiled per level.
//
// A panel has a row of words for each step of the depth, with one word for each of its vectors. 16-bit operands are
// widened while they are packed, so that the inner loop is that of f32. If the processor multiplies pairs of bf16, a
// word is a pair. If it multiplies tiles of pairs (AMX), bf16 has its own panels (tiles.h).
#pragma once

#include "runtime/kernels/cpu/pack.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

constexpr int tileVecs = 3;
constexpr int64_t tileCols = tileVecs * lanes;
#ifdef __AVX512F__
constexpr int registerRows = 8; // 24 accumulators, 3 of B, 1 of A, of 32 registers
#else
constexpr int registerRows = 4; // 12 accumulators, 3 of B, 1 of A, of 16 registers
#endif

/// A matrix whose element (i, j) is at data[i * rowStride + j * colStride]; one of the strides is 1.
template <class T> struct View {
  const T *data;
  int64_t rowStride, colStride;

  const T *at(int64_t i, int64_t j) const { return data + i * rowStride + j * colStride; }
};

/// One product, or the part of it that a thread computes. T: element type of the operands, R: of the result.
template <class T, class R> struct Product {
  View<T> a, b;
  R *c;
  int64_t ldc, rows, cols, depth;
  bool accumulate;
};

/// Copies `size` elements as f32; `size` is a multiple of 4 if it is the width of a tile.
template <int64_t size, class T> void copyExactly(const T *in, float *out) {
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    store(out + i, load(in + i));
  for (; i < size; i += 4)
    for (int64_t j = i; j < i + 4; ++j)
      out[j] = widen(in[j]);
}

/// The layout of operands in panels, and how a product advances by one word: here a word is one element as f32.
template <class T> struct Words {
  static constexpr int rows = registerRows; ///< of a panel of A
  static constexpr int64_t elements = 1;    ///< of a vector in one word

  static Vec multiply(Vec row, Vec columns, Vec sum) { return fma(row, columns, sum); }

  /// The next word of a vector that has `left` more elements, `along` apart.
  static float wordAt(const T *in, int64_t /*along*/, int64_t /*left*/) { return widen(*in); }

  /// Packs adjacent vectors whose elements are `along` apart: out[k * width + i] = in[i + k * along].
  template <int64_t width>
  static void packColumns(const T *in, int64_t along, int64_t count, int64_t depth, float *out) {
    if (count == width) {
      for (int64_t k = 0; k < depth; ++k)
        copyExactly<width>(in + k * along, out + k * width);
      return;
    }
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t i = 0; i < width; ++i)
        out[k * width + i] = i < count ? widen(in[k * along + i]) : 0.0f;
  }

  static void packRows(const T *in, int64_t across, int64_t count, int64_t width, int64_t depth, float *out) {
    DTC_KERNEL_LEVEL::packRows(in, across, count, width, depth, out);
  }
};

#ifdef __AVX512BF16__
/// Two neighbours in memory, aligned to elements but not to words.
struct Neighbours {
  BFloat low, high;
};
inline float widen(Neighbours both) { return __builtin_bit_cast(float, both); }
inline __m256 loadEight(const Neighbours *p) { return _mm256_loadu_ps(reinterpret_cast<const float *>(p)); }

/// A word holds two neighbouring elements of a vector, which one instruction multiplies and adds in f32. If the depth
/// is odd, the last word has a zero.
struct Pairs {
  static constexpr int rows = registerRows;
  static constexpr int64_t elements = 2;

  static Vec multiply(Vec row, Vec columns, Vec sum) { return _mm512_dpbf16_ps(sum, (__m512bh)row, (__m512bh)columns); }

  static float word(BFloat low, BFloat high) { return widen(Neighbours{low, high}); }
  static float wordAt(const BFloat *in, int64_t along, int64_t left) {
    return word(in[0], left > 1 ? in[along] : BFloat());
  }

  template <int64_t width>
  static void packColumns(const BFloat *in, int64_t along, int64_t count, int64_t depth, float *out) {
    for (int64_t k = 0; k < depth; k += 2, out += width) {
      const BFloat *low = in + k * along, *high = low + along;
      bool isPair = k + 1 < depth;
      int64_t i = 0;
      if (isPair)
        for (; i + lanes <= count; i += lanes) {
          __m512i lows = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(low + i)));
          __m512i highs = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(high + i)));
          store(out + i, _mm512_castsi512_ps(_mm512_or_si512(lows, _mm512_slli_epi32(highs, 16))));
        }
      if (isPair && i + 8 <= count) {
        __m256i lows = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(low + i)));
        __m256i highs = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(high + i)));
        __m256i words = _mm256_or_si256(lows, _mm256_slli_epi32(highs, 16));
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(words));
        i += 8;
      }
      for (; i < width; ++i)
        out[i] = i < count ? word(low[i], isPair ? high[i] : BFloat()) : 0.0f;
    }
  }

  /// Moves whole words if all rows are aligned to words.
  static void packRows(const BFloat *in, int64_t across, int64_t count, int64_t width, int64_t depth, float *out) {
    int64_t whole = across % 2 == 0 ? depth / 2 : 0;
    DTC_KERNEL_LEVEL::packRows(reinterpret_cast<const Neighbours *>(in), across / 2, count, width, whole, out);
    for (int64_t k = 2 * whole; k < depth; k += 2)
      for (int64_t i = 0; i < width; ++i) {
        const BFloat *at = in + i * across + k;
        out[k / 2 * width + i] = i < count ? word(at[0], k + 1 < depth ? at[1] : BFloat()) : 0.0f;
      }
  }
};
#endif

template <class T> struct PanelsOf {
  using type = Words<T>;
};
#ifdef __AVX512BF16__
template <> struct PanelsOf<BFloat> {
  using type = Pairs;
};
#endif
template <class T> using Panels = typename PanelsOf<T>::type;

constexpr int64_t roundUp(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

/// How many words of a panel `depth` elements take.
template <class T> int64_t words(int64_t depth) { return (depth + Panels<T>::elements - 1) / Panels<T>::elements; }

constexpr int64_t largestDepth = 768; // words of a packed vector

/// How the depth is split into blocks. All but the last have the same size, a whole number of words.
template <class T> struct DepthBlocks {
  int64_t count, size;
  explicit DepthBlocks(int64_t depth) {
    int64_t all = words<T>(depth);
    count = larger<int64_t>(1, (all + largestDepth - 1) / largestDepth);
    size = (all + count - 1) / count * Panels<T>::elements;
  }
};

/// Stores a tile's results, `stride` apart, rounded to the type of the result.
template <class R>
void narrowTile(const float *sums, int64_t stride, R *c, int64_t ldc, int64_t rows, int64_t cols, bool accumulate) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += lanes) {
      Mask mask = firstLanes(smaller(lanes, cols - j));
      Vec sum = load(sums + i * stride + j, mask);
      R *target = c + i * ldc + j;
      store(target, accumulate ? load(target, mask) + sum : sum, mask);
    }
}

/// Packs `count` vectors of length `depth` side by side: out[k * width + i] = in element (i, k); zeros for i >= count.
/// `along` is the distance between elements of one vector, `across` between vectors; one of them is 1.
template <int64_t width, class T>
void pack(const T *in, int64_t across, int64_t along, int64_t count, int64_t depth, float *out) {
  if (along == 1)
    Panels<T>::packRows(in, across, count, width, depth, out);
  else
    Panels<T>::template packColumns<width>(in, along, count, depth, out);
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
