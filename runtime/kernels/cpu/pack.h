// Transposing copies into panels, for GEMM and attention. Compiled per level.
#pragma once

#include "runtime/kernels/cpu/simd.h"

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// out[j * width + i] = in[i * across + j] for i, j < 8, in f32.
template <class T> void transposeEight(const T *in, int64_t across, float *out, int64_t width) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i)
    r[i] = loadEight(in + i * across);
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      __m256 low = _mm256_unpacklo_ps(r[i + j * 2], r[i + j * 2 + 1]);
      __m256 high = _mm256_unpackhi_ps(r[i + j * 2], r[i + j * 2 + 1]);
      s[i + j] = low;
      s[i + j + 2] = high;
    }
  // s[i], s[i + 1]: columns 0, 1, 4, 5 of rows i..i+1 and i+2..i+3; s[i + 2], s[i + 3]: columns 2, 3, 6, 7.
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = _mm256_shuffle_ps(s[i + 2 * j], s[i + 2 * j + 1], _MM_SHUFFLE(1, 0, 1, 0));
      r[i + 2 * j + 1] = _mm256_shuffle_ps(s[i + 2 * j], s[i + 2 * j + 1], _MM_SHUFFLE(3, 2, 3, 2));
    }
  // r[j] (rows 0..3) and r[4 + j] (rows 4..7) hold column j in their lower half and column 4 + j in their upper half.
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(out + j * width, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
    _mm256_storeu_ps(out + (4 + j) * width, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
  }
}

#ifdef __AVX512F__
/// Lane i of out[j] is word j of vector i, for four words; the 16 vectors begin `across` bytes apart.
inline void transposeFour(const char *in, int64_t across, Vec (&out)[4]) {
  auto quarter = [&](int64_t vector) { return _mm_loadu_ps(reinterpret_cast<const float *>(in + vector * across)); };
  // From vectors i, i + 4, i + 8, i + 12: it remains to transpose within each quarter of the registers.
  __m512 r[4];
  for (int64_t i = 0; i < 4; ++i) {
    r[i] = _mm512_castps128_ps512(quarter(i));
    r[i] = _mm512_insertf32x4(r[i], quarter(i + 4), 1);
    r[i] = _mm512_insertf32x4(r[i], quarter(i + 8), 2);
    r[i] = _mm512_insertf32x4(r[i], quarter(i + 12), 3);
  }
  __m512d low[2], high[2];
  for (int64_t i = 0; i < 2; ++i) {
    low[i] = _mm512_castps_pd(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]));
    high[i] = _mm512_castps_pd(_mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
  }
  out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low[0], low[1]));
  out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low[0], low[1]));
  out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high[0], high[1]));
  out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high[0], high[1]));
}
#endif

/// Vectors `across` apart, each contiguous: out[k * width + i] = in[i * across + k], in f32.
template <class T> void packRows(const T *in, int64_t across, int64_t count, int64_t width, int64_t depth, float *out) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    int64_t k = 0;
    for (; k + 8 <= depth; k += 8) {
      // Prefetches a line of each of the next vectors; the rest of the current vectors is prefetched by hardware.
      if (k % static_cast<int64_t>(64 / sizeof(T)) == 0)
        for (int64_t j = i + 8; j < i + 16; ++j)
          __builtin_prefetch(in + j * across + k);
      transposeEight(in + i * across + k, across, out + k * width + i, width);
    }
    for (; k < depth; ++k)
      for (int64_t j = i; j < i + 8; ++j)
        out[k * width + j] = widen(in[j * across + k]);
  }
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = i; j < count; ++j)
      out[k * width + j] = widen(in[j * across + k]);
    for (int64_t j = larger(i, count); j < width; ++j)
      out[k * width + j] = 0.0f;
  }
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
