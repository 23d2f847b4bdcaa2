// One vector type for kernels that are compiled once for each x86-64 level (see variants.h): 16 lanes of f32 at
// x86-64-v4, with or without products of bf16 or of tiles, 8 at x86-64-v3. Only sources compiled per level may include
// this header. Everything here has internal linkage: the linker must never keep an inline function compiled for AVX-512
// as the copy for all levels.
#pragma once

#include "runtime/abi/kernel.h"

#include <cstdint>
#include <immintrin.h>

#if defined(__AMX_BF16__)
#define DTC_KERNEL_LEVEL v4amx
#elif defined(__AVX512BF16__)
#define DTC_KERNEL_LEVEL v4bf16
#elif defined(__AVX512F__)
#define DTC_KERNEL_LEVEL v4
#else
#define DTC_KERNEL_LEVEL v3
#endif

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

template <class T> inline T smaller(T a, T b) { return b < a ? b : a; }
template <class T> inline T larger(T a, T b) { return a < b ? b : a; }

/// 16-bit elements in memory. Loads widen them to f32, stores round to nearest, ties to even.
struct BFloat {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

/// Calls run(T()) with the element type that a launch's scalar names.
template <class Run> inline void withElement(int64_t type, Run run) {
  if (type == dtc_bf16)
    run(BFloat());
  else if (type == dtc_f16)
    run(Half());
  else
    run(0.0f);
}

inline float widen(float x) { return x; }
inline float widen(BFloat x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }
inline float widen(Half x) { return _cvtsh_ss(x.bits); }

// Mask chooses the first few lanes; DTC_SIMD(add_ps) is the intrinsic of that name for whole vectors.
#ifdef __AVX512F__
using Vec = __m512;
using Mask = __mmask16;
#define DTC_SIMD(name) _mm512_##name
#else
using Vec = __m256;
using Mask = __m256i;
#define DTC_SIMD(name) _mm256_##name
#endif
constexpr int64_t lanes = sizeof(Vec) / sizeof(float);

inline Vec load(const float *p) { return DTC_SIMD(loadu_ps)(p); }
inline void store(float *p, Vec v) { DTC_SIMD(storeu_ps)(p, v); }
inline Vec splat(float x) { return DTC_SIMD(set1_ps)(x); }
inline Vec fma(Vec a, Vec b, Vec c) { return DTC_SIMD(fmadd_ps)(a, b, c); }
/// The second operand where either is NaN.
inline Vec maximum(Vec a, Vec b) { return DTC_SIMD(max_ps)(a, b); }
inline Vec minimum(Vec a, Vec b) { return DTC_SIMD(min_ps)(a, b); }

/// The upper half of each lane, rounded; a NaN stays one, as its upper half with the quiet bit.
inline auto upperHalves(Vec v) {
  using Words [[gnu::vector_size(sizeof(Vec))]] = uint32_t;
  Words bits = (Words)v, upper = bits >> 16, rounded = (bits + ((upper & 1) + 0x7fff)) >> 16;
  return v == v ? rounded : upper | 0x40;
}

#ifdef __AVX512F__

inline Mask firstLanes(int64_t n) { return static_cast<Mask>((1u << n) - 1u); }
inline Vec load(const float *p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
inline void store(float *p, Vec v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
inline float sum(Vec v) { return _mm512_reduce_add_ps(v); }
inline float largest(Vec v) { return _mm512_reduce_max_ps(v); }
inline Vec nearestInteger(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// a * 2^n for integral n; zero where x < threshold.
inline Vec scaleByPowerOfTwo(Vec a, Vec n, Vec x, Vec threshold) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, threshold, _CMP_NLT_UQ), a, n);
}

inline Vec widen(__m256i bits, BFloat) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec widen(__m256i bits, Half) { return _mm512_cvtph_ps(bits); }
inline __m256i narrow(Vec v, BFloat) { return _mm512_cvtepi32_epi16((__m512i)upperHalves(v)); }
inline __m256i narrow(Vec v, Half) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
template <class T> inline Vec load(const T *p) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)), T());
}
template <class T> inline Vec load(const T *p, Mask m) { return widen(_mm256_maskz_loadu_epi16(m, p), T()); }
template <class T> inline void store(T *p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), narrow(v, T()));
}
template <class T> inline void store(T *p, Vec v, Mask m) { _mm256_mask_storeu_epi16(p, m, narrow(v, T())); }

#else

inline Mask firstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float *p, Mask m) { return _mm256_maskload_ps(p, m); }
inline void store(float *p, Vec v, Mask m) { _mm256_maskstore_ps(p, m, v); }
inline float sum(Vec v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
inline float largest(Vec v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
inline Vec nearestInteger(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec scaleByPowerOfTwo(Vec a, Vec n, Vec x, Vec threshold) {
  // In two steps, because n may be 128, and 2^128 is not an f32.
  __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
  auto power = [&](__m256i e) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, bias), 23)); };
  Vec scaled = a * power(half) * power(_mm256_sub_epi32(whole, half));
  return _mm256_and_ps(scaled, _mm256_cmp_ps(x, threshold, _CMP_NLT_UQ));
}

inline Vec widen(__m128i bits, BFloat) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec widen(__m128i bits, Half) { return _mm256_cvtph_ps(bits); }
inline __m128i narrow(Vec v, BFloat) {
  __m256i halves = (__m256i)upperHalves(v);
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), _MM_SHUFFLE(3, 1, 2, 0));
  return _mm256_castsi256_si128(packed);
}
inline __m128i narrow(Vec v, Half) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
template <class T> inline Vec load(const T *p) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)), T());
}
template <class T> inline void store(T *p, Vec v) { _mm_storeu_si128(reinterpret_cast<__m128i *>(p), narrow(v, T())); }
/// AVX2 has no 16-bit masks: one element at a time, only at the ends of rows.
template <class T> inline Vec load(const T *p, Mask m) {
  float all[lanes];
  for (int64_t i = 0; i < lanes; ++i)
    all[i] = reinterpret_cast<const int32_t *>(&m)[i] ? widen(p[i]) : 0.0f;
  return load(all);
}
template <class T> inline void store(T *p, Vec v, Mask m) {
  T all[lanes];
  store(all, v);
  for (int64_t i = 0; i < lanes; ++i)
    if (reinterpret_cast<const int32_t *>(&m)[i])
      p[i] = all[i];
}

#endif

/// Eight elements in f32, at any level.
inline __m256 loadEight(const float *p) { return _mm256_loadu_ps(p); }
inline __m256 loadEight(const BFloat *p) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline __m256 loadEight(const Half *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

/// e^x within 2 units in the last place for |x| <= 87; 0 below -87.33 (where f32 would turn subnormal), so that
/// e^-infinity is 0; infinity above 88.73; NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts so that n ln 2 is exact; e^r by a polynomial of degree 6 with
/// relative error 3e-9, fitted to minimise the largest relative error.
inline Vec exponential(Vec x) {
  Vec threshold = splat(-87.33f);
  // The order of operands propagates a NaN in x.
  Vec clamped = minimum(splat(89.0f), maximum(threshold, x));
  Vec n = nearestInteger(clamped * splat(0x1.715476p+0f));
  Vec r = fma(n, splat(-0x1.62e4p-1f), clamped);
  r = fma(n, splat(-0x1.7f7d1cp-20f), r);
  Vec p = splat(0x1.6a2434p-10f);
  p = fma(p, r, splat(0x1.1239e2p-7f));
  p = fma(p, r, splat(0x1.5558f2p-5f));
  p = fma(p, r, splat(0x1.555492p-3f));
  p = fma(p, r, splat(0x1.fffffcp-2f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  return scaleByPowerOfTwo(p, n, x, threshold);
}

/// Accurate to about two units in the last place: near zero by its series, else by an exponential.
inline Vec hyperbolicTangent(Vec x) {
  constexpr float coefficients[] = {0.021869488f, -0.053968254f, 0.13333333f, -0.33333333f, 1.0f};
  Vec one = splat(1.0f), square = x * x, series = splat(-0.0088632355f);
  for (float coefficient : coefficients)
    series = fma(series, square, splat(coefficient));
  Vec power = exponential(x + x), far = one - splat(2.0f) / (power + one);
  auto isNear = square < splat(0.16f);
  using Bits = decltype(isNear);
  return (Vec)(((Bits)(x * series) & isNear) | ((Bits)far & ~isNear));
}

} // namespace
} // namespace dtc::kernels::DTC_KERNEL_LEVEL
