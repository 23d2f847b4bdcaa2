// C = op(A) op(B) + accumulate * C by packed panels and a register-blocked micro-kernel.
//
// The loops, outermost first: blocks of K (`depth`), blocks of rows of C (`rowBlock`), panels of columns (`tileCols`),
// tiles of rows (`tileRows`). A block of A, with all its row tiles, is packed once and stays in the L2 and L3 caches.
// Panels of B are packed one at a time, and a panel stays in the L1 and L2 caches while all row tiles use it. Meanwhile
// the next panel of B is prefetched, so that reading B from memory takes no extra time.
//
// panels.h describes the layout of panels. A 16-bit result is rounded once, from f32 sums. If the processor multiplies
// tiles, bf16 takes a different path (tiled_product.h), and so does a product of a few rows, for which packing B would
// not pay (thin_product.h).
//
// Every element of C is the same chain of fused multiply-adds over k, whatever tile it is in, and blocks of K depend
// only on K: results do not depend on how the grid is split.
#include "runtime/abi/library/gemm.h"
#include "runtime/kernels/cpu/panels.h"
#include "runtime/kernels/cpu/scratch.h"
#include "runtime/kernels/cpu/thin_product.h"
#include "runtime/kernels/cpu/variant.h"
#ifdef __AMX_BF16__
#include "runtime/kernels/cpu/tiled_product.h"
#endif

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

constexpr int64_t rowBlock = 1024;
constexpr int64_t floatsPerLine = 16;

/// Packs `count` rows of A from `row`, `depth` columns from `k`, as panels.
template <class T> void packBlock(const View<T> &a, int64_t row, int64_t count, int64_t k, int64_t depth, float *out) {
  constexpr int tileRows = Panels<T>::rows;
  int64_t i = 0, wordDepth = words<T>(depth);
  // Packs several panels at a time if A is transposed: one panel's share of a cache line is small.
  constexpr int64_t strip = 64, ahead = 8, elementsPerLine = 64 / sizeof(T), step = Panels<T>::elements;
  if (a.rowStride == 1)
    for (; i + strip <= count; i += strip)
      for (int64_t j = 0; j < depth; j += step) {
        const T *in = a.at(row + i, k + j);
        for (int64_t n = 0; n < step; ++n)
          for (int64_t p = 0; p < strip; p += elementsPerLine)
            __builtin_prefetch(in + (ahead + n) * a.colStride + p);
        for (int64_t p = 0; p < strip; p += tileRows)
          pack<tileRows>(in + p, 1, a.colStride, tileRows, smaller(step, depth - j),
                         out + (i + p) * wordDepth + j / step * tileRows);
      }
  for (; i < count; i += tileRows)
    pack<tileRows>(a.at(row + i, k), a.rowStride, a.colStride, smaller<int64_t>(tileRows, count - i), depth,
                   out + i * wordDepth);
}

/// Prefetches the source of the next panel of B into the cache, a part at a time.
class PanelPrefetch {
public:
  /// `count` columns of B from `col` (none: nothing to do), `depth` rows from `k`.
  template <class T>
  PanelPrefetch(const View<T> &b, int64_t k, int64_t depth, int64_t col, int64_t count, int64_t parts) {
    if (count <= 0)
      return;
    bool rowMajor = b.colStride == 1;
    in = reinterpret_cast<const char *>(b.at(k, col));
    stride = (rowMajor ? b.rowStride : b.colStride) * static_cast<int64_t>(sizeof(T));
    // Contiguous elements rarely begin at a cache line: one more.
    lines = ((rowMajor ? count : depth) - 1) * static_cast<int64_t>(sizeof(T)) / lineBytes + 2;
    total = lines * (rowMajor ? depth : count);
    share = (total + parts - 1) / parts;
  }

  void next() {
    for (int64_t last = smaller(at + share, total); at < last; ++at) {
      __builtin_prefetch(in + row * stride + line * lineBytes, 0, 2);
      if (++line == lines) {
        line = 0;
        ++row;
      }
    }
  }

private:
  static constexpr int64_t lineBytes = 64;
  const char *in = nullptr;
  int64_t stride = 0, lines = 0, total = 0, share = 0;
  int64_t at = 0, row = 0, line = 0;
};

/// c[rows, vecs * lanes] = a b (+ c), from packed panels; `last` chooses the columns of the last vector.
template <class Panel, int rows, int vecs>
void tile(const float *a, const float *b, int64_t depth, float *c, int64_t ldc, Mask last, bool accumulate) {
  Vec sums[rows][vecs];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vecs; ++j) {
      sums[i][j] = splat(0.0f);
      __builtin_prefetch(c + i * ldc + j * lanes, 1);
    }
  const float *nextTile = a + registerRows * depth; // of A, which is in a more distant cache than B
  for (int64_t k = 0; k < depth; ++k, a += registerRows, b += tileCols) {
    Vec columns[vecs];
    __builtin_prefetch(nextTile + k * registerRows);
#pragma GCC unroll 4
    for (int j = 0; j < vecs; ++j)
      columns[j] = load(b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      Vec row = splat(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < vecs; ++j)
        sums[i][j] = Panel::multiply(row, columns[j], sums[i][j]);
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vecs; ++j) {
      float *target = c + i * ldc + j * lanes;
      if (j + 1 < vecs)
        store(target, accumulate ? load(target) + sums[i][j] : sums[i][j]);
      else
        store(target, accumulate ? load(target, last) + sums[i][j] : sums[i][j], last);
    }
}

using Tile = void (*)(const float *, const float *, int64_t, float *, int64_t, Mask, bool);

template <class Panel, int rows> Tile tileOf(int64_t vecs) {
  static constexpr Tile tiles[] = {tile<Panel, rows, 1>, tile<Panel, rows, 2>, tile<Panel, rows, 3>};
  static_assert(sizeof(tiles) / sizeof(Tile) == tileVecs);
  return tiles[vecs - 1];
}

template <class Panel, int rows = registerRows> Tile tileOf(int64_t count, int64_t vecs) {
  if constexpr (rows > 1)
    if (count < rows)
      return tileOf<Panel, rows - 1>(count, vecs);
  return tileOf<Panel, rows>(vecs);
}

/// Multiplies a packed block of A by the panel of B at `col`; `depth` in words.
template <class T, class R>
void multiplyPanel(const Product<T, R> &p, const float *packedA, const float *packedB, int64_t row, int64_t rowEnd,
                   int64_t col, int64_t depth, bool accumulate, PanelPrefetch prefetch) {
  int64_t cols = smaller(tileCols, p.cols - col), vecs = (cols + lanes - 1) / lanes;
  Mask last = firstLanes(cols - (vecs - 1) * lanes);
  for (int64_t i = row; i < rowEnd; i += registerRows) {
    prefetch.next();
    int64_t rows = smaller<int64_t>(registerRows, rowEnd - i);
    Tile tile = tileOf<Panels<T>>(rows, vecs);
    const float *a = packedA + (i - row) * depth;
    R *c = p.c + i * p.ldc + col;
    if constexpr (__is_same(R, float)) {
      tile(a, packedB, depth, c, p.ldc, last, accumulate);
    } else {
      alignas(64) float sums[registerRows * tileCols];
      tile(a, packedB, depth, sums, tileCols, last, false);
      narrowTile(sums, tileCols, c, p.ldc, rows, cols, accumulate);
    }
  }
}

template <class T, class R>
void multiplyBlock(const Product<T, R> &p, float *packedA, float *packedB, int64_t row, int64_t k, int64_t depth,
                   bool accumulate) {
  int64_t rowEnd = smaller(row + rowBlock, p.rows);
  packBlock(p.a, row, rowEnd - row, k, depth, packedA);
  for (int64_t col = 0; col < p.cols; col += tileCols) {
    pack<tileCols>(p.b.at(k, col), p.b.colStride, p.b.rowStride, smaller(tileCols, p.cols - col), depth, packedB);
    int64_t next = col + tileCols;
    PanelPrefetch prefetch(p.b, k, depth, next, smaller(tileCols, p.cols - next),
                           (rowEnd - row + Panels<T>::rows - 1) / Panels<T>::rows);
    multiplyPanel(p, packedA, packedB, row, rowEnd, col, words<T>(depth), accumulate, prefetch);
  }
}

int64_t roundToLine(int64_t floats) { return roundUp(floats, floatsPerLine); }

/// The size of a product's panels, in floats.
template <class T, class R> int64_t panelRoom(const Product<T, R> &p) {
  int64_t depth = words<T>(DepthBlocks<T>(p.depth).size);
  int64_t packedRows = roundUp(smaller(p.rows, rowBlock), Panels<T>::rows);
  return roundToLine(packedRows * depth) + tileCols * depth;
}

template <class T, class R> void multiplyWith(const Product<T, R> &p, float *panels) {
  DepthBlocks<T> blocks(p.depth);
  int64_t packedRows = roundUp(smaller(p.rows, rowBlock), Panels<T>::rows);
  float *packedB = panels + roundToLine(packedRows * words<T>(blocks.size));
  for (int64_t block = 0; block < blocks.count; ++block) {
    int64_t k = block * blocks.size, depth = smaller(blocks.size, p.depth - k);
    for (int64_t row = 0; row < p.rows; row += rowBlock)
      multiplyBlock(p, panels, packedB, row, k, depth, p.accumulate || block > 0);
  }
}

template <class T, class R> void multiply(const Product<T, R> &p) {
  if (p.rows <= 0 || p.cols <= 0)
    return;
  if (__is_same(R, float) || DepthBlocks<T>(p.depth).count == 1)
    return multiplyWith(p, threadScratch(panelRoom(p)));
  // Sums over several blocks of the depth are kept in f32, for a part of the result at a time, and rounded once.
  constexpr int64_t partRows = 512, partCols = 768;
  Product<T, float> part{p.a, p.b, nullptr, partCols, smaller(partRows, p.rows), partCols, p.depth, false};
  part.c = threadScratch(roundToLine(part.rows * partCols) + panelRoom(part));
  for (int64_t row = 0; row < p.rows; row += partRows)
    for (int64_t col = 0; col < p.cols; col += partCols) {
      part.a.data = p.a.at(row, 0), part.rows = smaller(partRows, p.rows - row);
      part.b.data = p.b.at(0, col), part.cols = smaller(partCols, p.cols - col);
      multiplyWith(part, part.c + roundToLine(smaller(partRows, p.rows) * partCols));
      narrowTile(part.c, partCols, p.c + row * p.ldc + col, p.ldc, part.rows, part.cols, p.accumulate);
    }
}

#ifdef __AMX_BF16__
template <class R> void multiply(const Product<BFloat, R> &p) {
  if (p.rows > 0 && p.cols > 0)
    TiledProduct<R>(p).run();
}
#endif

using abi::library::GemmScalars;

template <class T, class R> void gemmOf(void *const *buffers, const GemmScalars &args, int64_t begin, int64_t end) {
  int64_t m = args.m, n = args.n, lda = args.lda, ldb = args.ldb, ldc = args.ldc;
  bool transposeA = args.transposeA, transposeB = args.transposeB, splitCols = args.splitColumns;
  int64_t perBatch = splitCols ? n : m;
  while (begin < end) {
    int64_t batch = begin / perBatch, first = begin % perBatch, count = smaller(end - begin, perBatch - first);
    int64_t row = splitCols ? 0 : first, col = splitCols ? first : 0;
    View<T> a = {static_cast<const T *>(buffers[0]) + batch * args.strideA, transposeA ? 1 : lda, transposeA ? lda : 1};
    View<T> b = {static_cast<const T *>(buffers[1]) + batch * args.strideB, transposeB ? 1 : ldb, transposeB ? ldb : 1};
    R *c = static_cast<R *>(buffers[2]) + batch * args.strideC;
    Product<T, R> part{{a.at(row, 0), a.rowStride, a.colStride},
                       {b.at(0, col), b.rowStride, b.colStride},
                       c + row * ldc + col,
                       ldc,
                       splitCols ? m : count,
                       splitCols ? count : n,
                       args.k,
                       args.accumulate != 0};
    m <= thinRows ? multiplyThin(part) : multiply(part);
    begin += count;
  }
}

} // namespace

void gemm(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto args = abi::library::load<GemmScalars>(scalars);
  withElement(args.operands, [&](auto operand) {
    using T = decltype(operand);
    bool isWide = args.result == dtc_f32;
    (isWide ? gemmOf<T, float> : gemmOf<T, T>)(buffers, args, begin, end);
  });
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
