// Products of small matrices that fit in the L1 cache: the inner parts of attention. Compiled per level.
#pragma once

#include "runtime/kernels/cpu/simd.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// A matrix read one element at a time: element (i, j) at data[i * rowStride + j * colStride].
struct Elements {
  const float *data;
  int64_t rowStride, colStride;
};

/// c[rows, vecs * lanes] = a[rows, depth] b[depth, vecs * lanes] (+ c).
template <int rows, int vecs, bool accumulate>
void productTile(Elements a, const float *b, int64_t ldb, int64_t depth, float *c, int64_t ldc) {
  Vec sums[rows][vecs];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vecs; ++j)
      sums[i][j] = accumulate ? load(c + i * ldc + j * lanes) : splat(0.0f);
  const float *column = a.data;
  for (int64_t k = 0; k < depth; ++k, b += ldb, column += a.colStride) {
    Vec row[vecs];
#pragma GCC unroll 4
    for (int j = 0; j < vecs; ++j)
      row[j] = load(b + j * lanes);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      Vec element = splat(column[i * a.rowStride]);
#pragma GCC unroll 4
      for (int j = 0; j < vecs; ++j)
        sums[i][j] = fma(element, row[j], sums[i][j]);
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vecs; ++j)
      store(c + i * ldc + j * lanes, sums[i][j]);
}

#ifdef __AVX512F__
constexpr int productVecs = 4; // with 4 rows 16 accumulators of 32 registers
#else
constexpr int productVecs = 2; // with 4 rows 8 accumulators of 16 registers
#endif
constexpr int productRows = 4;

template <int rows, bool accumulate>
void productRowsOf(Elements a, const float *b, int64_t ldb, int64_t cols, int64_t depth, float *c, int64_t ldc) {
  int64_t j = 0;
  for (; j + productVecs * lanes <= cols; j += productVecs * lanes)
    productTile<rows, productVecs, accumulate>(a, b + j, ldb, depth, c + j, ldc);
  for (; j < cols; j += lanes)
    productTile<rows, 1, accumulate>(a, b + j, ldb, depth, c + j, ldc);
}

/// c[rows, cols] = a[rows, depth] b[depth, cols] (+ c), cols a multiple of lanes.
template <bool accumulate>
void smallProduct(Elements a, const float *b, int64_t ldb, int64_t rows, int64_t cols, int64_t depth, float *c,
                  int64_t ldc) {
  int64_t i = 0;
  for (; i + productRows <= rows; i += productRows)
    productRowsOf<productRows, accumulate>({a.data + i * a.rowStride, a.rowStride, a.colStride}, b, ldb, cols, depth,
                                           c + i * ldc, ldc);
  for (; i < rows; ++i)
    productRowsOf<1, accumulate>({a.data + i * a.rowStride, a.rowStride, a.colStride}, b, ldb, cols, depth, c + i * ldc,
                                 ldc);
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
