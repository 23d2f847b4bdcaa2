// Products of a few rows with a large matrix, as in generating a token. They are bound by reading the matrix from
// memory, so B is multiplied in place instead of packed. Compiled per level.
//
// If rows of B are contiguous, several are read at a time along all columns of a part, whose sums stay in the L1 cache.
// If columns are contiguous, as many as a vector has lanes are read at a time and transposed in small squares. Either
// way an element of C is the same chain of multiply-adds as in gemm.cpp, with the same blocks of the depth: a row has
// the same bits whatever other rows there are. (Except where bf16 is multiplied in tiles, which sum in a different
// order.)
#pragma once

#include "runtime/kernels/cpu/panels.h"
#include "runtime/kernels/cpu/scratch.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// A product of more rows uses packed panels.
constexpr int64_t thinRows = 8;

/// One word of the depth from rows of B, for a few columns at a time.
template <class T> struct RowSteps {
  static constexpr int64_t vectors = 1, columns = lanes;

  /// Loads from the row at `in`, which has `count` columns left. The next row is `stride` further; a word of several
  /// elements includes it if the word `isWhole`.
  template <bool isFull>
  static void load(const T *in, int64_t /*stride*/, bool /*isWhole*/, int64_t count, Vec (&words)[vectors]) {
    words[0] = isFull ? DTC_KERNEL_LEVEL::load(in) : DTC_KERNEL_LEVEL::load(in, firstLanes(count));
  }
  /// Puts the sums of one step into the order of columns.
  static void sort(float *) {}
};

#ifdef __AVX512BF16__
/// Two rows are interleaved within quarters of vectors, which takes one instruction per vector; `sort` reorders the
/// sums.
template <> struct RowSteps<BFloat> {
  static constexpr int64_t vectors = 2, columns = 2 * lanes;

  template <bool isFull>
  static void load(const BFloat *in, int64_t stride, bool isWhole, int64_t count, Vec (&words)[vectors]) {
    __mmask32 mask = isFull ? ~0u : (1u << count) - 1;
    __m512i low = _mm512_maskz_loadu_epi16(mask, in);
    __m512i high = isWhole ? _mm512_maskz_loadu_epi16(mask, in + stride) : _mm512_setzero_si512();
    words[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(low, high));
    words[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(low, high));
  }

  static void sort(float *sums) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    Vec low = DTC_KERNEL_LEVEL::load(sums), high = DTC_KERNEL_LEVEL::load(sums + lanes);
    store(sums, _mm512_permutex2var_ps(low, first, high));
    store(sums + lanes, _mm512_permutex2var_ps(low, second, high));
  }
};
#endif

/// One product of at most `rows` rows; missing rows are zeros.
template <class T, class R, int rows> class ThinProduct {
public:
  explicit ThinProduct(const Product<T, R> &p)
      : p(p), blocks(p.depth), hasWholeRows(p.b.colStride == 1), width(hasWholeRows ? 4096 / rows : 4 * lanes) {
    int64_t room = roundUp(rows * words<T>(p.depth), lanes);
    factors = threadScratch(room + 2 * rows * width);
    sums = factors + room;
    totals = sums + rows * width;
  }

  void run() {
    gatherFactors();
    for (int64_t col = 0; col < p.cols; col += width) {
      int64_t count = smaller(width, p.cols - col);
      for (int64_t block = 0; block < blocks.count; ++block) {
        int64_t k = block * blocks.size, depth = smaller(blocks.size, p.depth - k);
        const float *a = factors + k / elements * rows;
        hasWholeRows ? sumRows(p.b.at(k, col), a, count, depth) : sumColumns(p.b.at(k, col), a, count, depth);
        addBlock(col, count, block);
      }
      if constexpr (!__is_same(R, float))
        narrowTile(totals, width, p.c + col, p.ldc, p.rows, count, p.accumulate);
    }
  }

private:
  using Panel = Panels<T>;
  using Steps = RowSteps<T>;
  static constexpr int64_t elements = Panel::elements;
  /// Words of the depth that are read at a time from contiguous rows: eight rows.
  static constexpr int atOnce = 8 / elements;
  /// The prefetch distance along a row.
  static constexpr int64_t ahead = 1024 / sizeof(T);

  /// Gathers the words of A, with those of the same depth adjacent.
  void gatherFactors() {
    for (int64_t k = 0; k < p.depth; k += elements)
      for (int64_t i = 0; i < rows; ++i)
        factors[k / elements * rows + i] = i < p.rows ? Panel::wordAt(p.a.at(i, k), p.a.colStride, p.depth - k) : 0.0f;
  }

  /// sums = a b over a block of the depth.
  void sumRows(const T *b, const float *a, int64_t columns, int64_t depth) {
    for (int64_t i = 0; i < rows * width; i += lanes)
      store(sums + i, splat(0.0f));
    int64_t k = 0;
    for (; k + atOnce * elements <= depth; k += atOnce * elements)
      addRows<atOnce>(b + k * p.b.rowStride, a + k / elements * rows, columns, depth - k);
    for (; k < depth; k += elements)
      addRows<1>(b + k * p.b.rowStride, a + k / elements * rows, columns, depth - k);
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < columns; j += Steps::columns)
        Steps::sort(sums + i * width + j);
  }

  /// sums += a b over `count` words of the depth, which has `left` elements from here on.
  template <int count> void addRows(const T *b, const float *a, int64_t columns, int64_t left) {
    int64_t j = 0;
    for (; j + Steps::columns <= columns; j += Steps::columns)
      addStep<count, true>(b, a, j, columns, left);
    if (j < columns)
      addStep<count, false>(b, a, j, columns, left);
  }

  template <int count, bool isFull>
  [[gnu::always_inline]] void addStep(const T *b, const float *a, int64_t j, int64_t columns, int64_t left) {
    // At the end of these rows, prefetch the next ones.
    int64_t next = j + ahead < columns ? j + ahead : j + ahead - columns + count * elements * p.b.rowStride;
    for (int64_t k = 0; k < count * elements; ++k)
      __builtin_prefetch(b + k * p.b.rowStride + next);
    Vec loaded[count][Steps::vectors];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k)
      Steps::template load<isFull>(b + k * elements * p.b.rowStride + j, p.b.rowStride, left > k * elements + 1,
                                   columns - j, loaded[k]);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < Steps::vectors; ++v) {
        float *place = sums + i * width + j + v * lanes;
        Vec sum = load(place);
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k)
          sum = Panel::multiply(splat(a[k * rows + i]), loaded[k][v], sum);
        store(place, sum);
      }
  }

  /// sums = a b over a block of the depth.
  void sumColumns(const T *b, const float *a, int64_t columns, int64_t depth) {
    for (int64_t j = 0; j < columns; j += lanes, b += lanes * p.b.colStride) {
      Vec all[rows];
      for (Vec &sum : all)
        sum = splat(0.0f);
      for (int64_t k = 0; k < depth; k += lanes * elements) {
        // Prefetch the next columns only into the L2 cache: if they begin at multiples of a page, all compete for the
        // same few lines of the L1 cache.
        for (int64_t i = lanes; i < 2 * lanes; ++i)
          __builtin_prefetch(b + i * p.b.colStride + k, 0, 2);
        addSquare(b + k, a + k / elements * rows, smaller(lanes, columns - j), smaller(lanes * elements, depth - k),
                  all);
      }
      for (int i = 0; i < rows; ++i)
        store(sums + i * width + j, all[i]);
    }
  }

  static void addWords(const float *a, const Vec *square, int64_t count, Vec (&all)[rows]) {
    for (int64_t k = 0; k < count; ++k, a += rows)
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i)
        all[i] = Panel::multiply(splat(a[i]), square[k], all[i]);
  }

  /// all += a b for a square of B, which may be partial: `count` columns, `length` elements of the depth.
  [[gnu::always_inline]] void addSquare(const T *b, const float *a, int64_t count, int64_t length, Vec (&all)[rows]) {
    Vec square[lanes];
#ifdef __AVX512F__
    if constexpr (elements * sizeof(T) == sizeof(float))
      if (count == lanes && length == lanes * elements) {
        const char *in = reinterpret_cast<const char *>(b);
#pragma GCC unroll 4
        for (int64_t k = 0; k < lanes; k += 4)
          transposeFour(in + k * sizeof(float), p.b.colStride * sizeof(T), reinterpret_cast<Vec(&)[4]>(square[k]));
        return addWords(a, square, lanes, all);
      }
#endif
    pack<lanes>(b, p.b.colStride, 1, count, length, reinterpret_cast<float *>(square));
    addWords(a, square, words<T>(length), all);
  }

  /// Adds the sums over a block of the depth to the result or, if its type is narrow, to totals in f32.
  void addBlock(int64_t col, int64_t columns, int64_t block) {
    float *out = totals;
    int64_t stride = width;
    bool resume = block > 0;
    if constexpr (__is_same(R, float))
      out = p.c + col, stride = p.ldc, resume = resume || p.accumulate;
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < columns; j += lanes) {
        Mask mask = firstLanes(smaller(lanes, columns - j));
        Vec sum = load(sums + i * width + j);
        store(out + i * stride + j, resume ? load(out + i * stride + j, mask) + sum : sum, mask);
      }
  }

  const Product<T, R> p;
  const DepthBlocks<T> blocks;
  const bool hasWholeRows; ///< whether rows of B are contiguous
  const int64_t width;     ///< columns of a part
  float *factors, *sums, *totals;
};

template <class T, class R> void multiplyThin(const Product<T, R> &p) {
  if (p.rows <= 0 || p.cols <= 0)
    return;
  if (p.rows == 1)
    ThinProduct<T, R, 1>(p).run();
  else if (p.rows == 2)
    ThinProduct<T, R, 2>(p).run();
  else if (p.rows <= 4)
    ThinProduct<T, R, 4>(p).run();
  else
    ThinProduct<T, R, 8>(p).run();
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
