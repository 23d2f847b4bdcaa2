// C = op(A) op(B) + accumulate * C by packed panels and a register-blocked micro-kernel.
//
// The loops, outermost first: blocks of K (`depth`), blocks of rows of C (`rowBlock`), panels of columns (`tileCols`),
// tiles of rows (`tileRows`). A block of A is packed once, all its row tiles, and stays in the level-2 and level-3
// caches; one panel of B is packed at a time and stays in the level-1 and level-2 caches while all row tiles pass over
// it. While they do, the next panel of B is prefetched, so that reading B from memory costs no time of its own.
//
// Every element of C is the same chain of fused multiply-adds over k whatever tile it falls in, and blocks of K depend
// on K alone: results do not depend on how the grid is cut.
#include "runtime/kernels/pack.h"
#include "runtime/kernels/scratch.h"
#include "runtime/kernels/variant.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

constexpr int tileVecs = 3;
constexpr int64_t tileCols = tileVecs * lanes;
#ifdef __AVX512F__
constexpr int tileRows = 8; // 24 accumulators, 3 of B, 1 of A, of 32 registers
#else
constexpr int tileRows = 4; // 12 accumulators, 3 of B, 1 of A, of 16 registers
#endif
constexpr int64_t largestDepth = 768;
constexpr int64_t rowBlock = 1024;
constexpr int64_t floatsPerLine = 16;

/// A matrix whose element (i, j) is at data[i * rowStride + j * colStride]; one of the strides is 1.
struct View {
  const float *data;
  int64_t rowStride, colStride;

  const float *at(int64_t i, int64_t j) const { return data + i * rowStride + j * colStride; }
};

/// Copies `size` floats; `size` is a multiple of 4 where it is the width of a tile.
template <int64_t size> void copyExactly(const float *in, float *out) {
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    store(out + i, load(in + i));
  for (; i < size; i += 4)
    _mm_storeu_ps(out + i, _mm_loadu_ps(in + i));
}

/// Vectors side by side, their elements `along` apart: out[k * width + i] = in[i + k * along].
template <int64_t width> void packColumns(const float *in, int64_t along, int64_t count, int64_t depth, float *out) {
  if (count == width) {
    for (int64_t k = 0; k < depth; ++k)
      copyExactly<width>(in + k * along, out + k * width);
    return;
  }
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t i = 0; i < width; ++i)
      out[k * width + i] = i < count ? in[k * along + i] : 0.0f;
}

/// Packs `count` vectors of length `depth` side by side: out[k * width + i] = in element (i, k); zeros for i >= count.
/// `along` is the distance between elements of one vector, `across` between vectors; one of them is 1.
template <int64_t width>
void pack(const float *in, int64_t across, int64_t along, int64_t count, int64_t depth, float *out) {
  if (along == 1)
    packRows(in, across, count, width, depth, out);
  else
    packColumns<width>(in, along, count, depth, out);
}

/// Packs `count` rows of A from `row`, `depth` columns from `k`, as panels of tileRows rows.
void packBlock(const View &a, int64_t row, int64_t count, int64_t k, int64_t depth, float *out) {
  int64_t i = 0;
  // Several panels at a time where A is transposed: one panel's share of a cache line is small.
  constexpr int64_t strip = 64, ahead = 8;
  if (a.rowStride == 1)
    for (; i + strip <= count; i += strip)
      for (int64_t j = 0; j < depth; ++j) {
        const float *in = a.at(row + i, k + j);
        for (int64_t p = 0; p < strip; p += floatsPerLine)
          __builtin_prefetch(in + ahead * a.colStride + p);
        for (int64_t p = 0; p < strip; p += tileRows)
          copyExactly<tileRows>(in + p, out + (i + p) * depth + j * tileRows);
      }
  for (; i < count; i += tileRows)
    pack<tileRows>(a.at(row + i, k), a.rowStride, a.colStride, smaller<int64_t>(tileRows, count - i), depth,
                   out + i * depth);
}

/// Brings what one panel of B will be packed from into the cache, a part at a time.
class PanelPrefetch {
public:
  /// `count` columns of B from `col` (none: nothing to do), `depth` rows from `k`.
  PanelPrefetch(const View &b, int64_t k, int64_t depth, int64_t col, int64_t count, int64_t parts) {
    if (count <= 0)
      return;
    bool rowMajor = b.colStride == 1;
    in = b.at(k, col);
    stride = rowMajor ? b.rowStride : b.colStride;
    // Contiguous elements seldom begin with a line: one more.
    lines = ((rowMajor ? count : depth) - 1) / floatsPerLine + 2;
    total = lines * (rowMajor ? depth : count);
    share = (total + parts - 1) / parts;
  }

  void next() {
    for (int64_t last = smaller(at + share, total); at < last; ++at) {
      __builtin_prefetch(in + row * stride + line * floatsPerLine, 0, 2);
      if (++line == lines) {
        line = 0;
        ++row;
      }
    }
  }

private:
  const float *in = nullptr;
  int64_t stride = 0, lines = 0, total = 0, share = 0;
  int64_t at = 0, row = 0, line = 0;
};

/// c[rows, vecs * lanes] = a b (+ c), from packed panels; `last` chooses the columns of the last vector.
template <int rows, int vecs>
void tile(const float *a, const float *b, int64_t depth, float *c, int64_t ldc, Mask last, bool accumulate) {
  Vec sums[rows][vecs];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vecs; ++j) {
      sums[i][j] = splat(0.0f);
      __builtin_prefetch(c + i * ldc + j * lanes, 1);
    }
  const float *nextTile = a + tileRows * depth; // of A, which comes from further away than B
  for (int64_t k = 0; k < depth; ++k, a += tileRows, b += tileCols) {
    Vec columns[vecs];
    __builtin_prefetch(nextTile + k * tileRows);
#pragma GCC unroll 4
    for (int j = 0; j < vecs; ++j)
      columns[j] = load(b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      Vec row = splat(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < vecs; ++j)
        sums[i][j] = fma(row, columns[j], sums[i][j]);
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

template <int rows> Tile tileOf(int64_t vecs) {
  static constexpr Tile tiles[] = {tile<rows, 1>, tile<rows, 2>, tile<rows, 3>};
  static_assert(sizeof(tiles) / sizeof(Tile) == tileVecs);
  return tiles[vecs - 1];
}

template <int rows = tileRows> Tile tileOf(int64_t count, int64_t vecs) {
  if constexpr (rows > 1)
    if (count < rows)
      return tileOf<rows - 1>(count, vecs);
  return tileOf<rows>(vecs);
}

/// One product, or the part of it that a thread does.
struct Product {
  View a, b;
  float *c;
  int64_t ldc, rows, cols, depth;
  bool accumulate;
};

/// The panel of B at `col` over a packed block of A.
void multiplyPanel(const Product &p, const float *packedA, const float *packedB, int64_t row, int64_t rowEnd,
                   int64_t col, int64_t depth, bool accumulate, PanelPrefetch prefetch) {
  int64_t cols = smaller(tileCols, p.cols - col), vecs = (cols + lanes - 1) / lanes;
  Mask last = firstLanes(cols - (vecs - 1) * lanes);
  for (int64_t i = row; i < rowEnd; i += tileRows) {
    prefetch.next();
    Tile tile = tileOf(smaller<int64_t>(tileRows, rowEnd - i), vecs);
    tile(packedA + (i - row) * depth, packedB, depth, p.c + i * p.ldc + col, p.ldc, last, accumulate);
  }
}

void multiplyBlock(const Product &p, float *packedA, float *packedB, int64_t row, int64_t k, int64_t depth,
                   bool accumulate) {
  int64_t rowEnd = smaller(row + rowBlock, p.rows);
  packBlock(p.a, row, rowEnd - row, k, depth, packedA);
  for (int64_t col = 0; col < p.cols; col += tileCols) {
    pack<tileCols>(p.b.at(k, col), p.b.colStride, p.b.rowStride, smaller(tileCols, p.cols - col), depth, packedB);
    int64_t next = col + tileCols;
    PanelPrefetch prefetch(p.b, k, depth, next, smaller(tileCols, p.cols - next),
                           (rowEnd - row + tileRows - 1) / tileRows);
    multiplyPanel(p, packedA, packedB, row, rowEnd, col, depth, accumulate, prefetch);
  }
}

void multiply(const Product &p) {
  if (p.rows <= 0 || p.cols <= 0)
    return;
  int64_t blocks = larger<int64_t>(1, (p.depth + largestDepth - 1) / largestDepth);
  int64_t depth = (p.depth + blocks - 1) / blocks;
  int64_t packedRows = (smaller(p.rows, rowBlock) + tileRows - 1) / tileRows * tileRows;
  float *packedA = threadScratch(packedRows * depth + tileCols * depth + floatsPerLine);
  float *packedB = packedA + (packedRows * depth + floatsPerLine - 1) / floatsPerLine * floatsPerLine;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t k = block * depth, thisDepth = smaller(depth, p.depth - k);
    for (int64_t row = 0; row < p.rows; row += rowBlock)
      multiplyBlock(p, packedA, packedB, row, k, thisDepth, p.accumulate || block > 0);
  }
}

} // namespace

void gemm(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  int64_t m = scalars[1], n = scalars[2], depth = scalars[3];
  bool transposeA = scalars[4], transposeB = scalars[5], splitCols = scalars[13];
  int64_t lda = scalars[6], ldb = scalars[7], ldc = scalars[8];
  int64_t perBatch = splitCols ? n : m;
  while (begin < end) {
    int64_t batch = begin / perBatch, first = begin % perBatch, count = smaller(end - begin, perBatch - first);
    int64_t row = splitCols ? 0 : first, col = splitCols ? first : 0;
    View a = {static_cast<const float *>(buffers[0]) + batch * scalars[9], transposeA ? 1 : lda, transposeA ? lda : 1};
    View b = {static_cast<const float *>(buffers[1]) + batch * scalars[10], transposeB ? 1 : ldb, transposeB ? ldb : 1};
    float *c = static_cast<float *>(buffers[2]) + batch * scalars[11];
    multiply({{a.at(row, 0), a.rowStride, a.colStride},
              {b.at(0, col), b.rowStride, b.colStride},
              c + row * ldc + col,
              ldc,
              splitCols ? m : count,
              splitCols ? count : n,
              depth,
              scalars[12] != 0});
    begin += count;
  }
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
