#include "runtime/kernels/cpu/variant.h"

#include "runtime/abi/library/rotary.h"
#include "runtime/kernels/cpu/scratch.h"

// glibc's libmvec: several at once, each within four units in the last place of f64.
#ifdef __AVX512F__
using Doubles = __m512d;
#define DTC_LIBMVEC(name) _ZGVeN8v_##name
#else
using Doubles = __m256d;
#define DTC_LIBMVEC(name) _ZGVdN4v_##name
#endif
extern "C" Doubles DTC_LIBMVEC(cos)(Doubles);
extern "C" Doubles DTC_LIBMVEC(sin)(Doubles);

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

using abi::library::RotaryScalars;

inline Doubles load(const double *p) { return DTC_SIMD(loadu_pd)(p); }
inline Doubles splat(double x) { return DTC_SIMD(set1_pd)(x); }
#ifdef __AVX512F__
inline void storeNarrow(float *p, Doubles v) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }
#else
inline void storeNarrow(float *p, Doubles v) { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }
#endif

/// Cosines and sines of one position, one of each per frequency, a multiple of 8. In f64, because f32 angles of large
/// positions lose digits.
void fillAngles(const double *frequencies, double position, double sign, double amplitude, int64_t pairs,
                float *cosines, float *sines) {
  constexpr int64_t atOnce = sizeof(Doubles) / sizeof(double);
  for (int64_t i = 0; i < pairs; i += atOnce) {
    Doubles angle = splat(position) * load(frequencies + i);
    storeNarrow(cosines + i, splat(amplitude) * DTC_LIBMVEC(cos)(angle));
    storeNarrow(sines + i, splat(sign * amplitude) * DTC_LIBMVEC(sin)(angle));
  }
}

/// One row: rotates the pairs and leaves the elements after them unchanged.
template <class T>
void rotate(const T *x, T *out, const float *cosines, const float *sines, int64_t pairs, int64_t width) {
  for (int64_t i = 0; i < pairs; i += lanes) {
    Mask mask = firstLanes(smaller(lanes, pairs - i));
    Vec c = load(cosines + i, mask), s = load(sines + i, mask);
    Vec first = load(x + i, mask), second = load(x + pairs + i, mask);
    store(out + i, fma(first, c, splat(0.0f) - second * s), mask);
    store(out + pairs + i, fma(second, c, first * s), mask);
  }
  if (x != out)
    for (int64_t i = 2 * pairs; i < width; ++i)
      out[i] = x[i];
}

template <class T> void rotaryOf(void *const *buffers, const RotaryScalars &args, int64_t begin, int64_t end) {
  const T *x = static_cast<const T *>(buffers[0]);
  const int32_t *positions = static_cast<const int32_t *>(buffers[1]);
  T *out = static_cast<T *>(buffers[2]);
  int64_t length = args.S, inner = args.inner, width = args.E, pairs = args.pairs;
  double sign = static_cast<double>(args.sign);
  int64_t padded = (pairs + 7) / 8 * 8; // whole vectors
  float *cosines = threadScratch(4 * padded), *sines = cosines + padded;
  double *frequencies = reinterpret_cast<double *>(sines + padded);
  for (int64_t i = 0; i < padded; ++i)
    frequencies[i] = i < pairs ? abi::rotaryFrequency(args.theta, pairs, args.scaling, i) : 0;
  // Computes each position's angles once for all outer indices of this part of the grid.
  for (int64_t s = 0; s < length; ++s) {
    int64_t outer = begin <= s ? 0 : (begin - s + length - 1) / length;
    if (outer * length + s >= end)
      continue;
    fillAngles(frequencies, positions[s], sign, args.scaling.amplitude, padded, cosines, sines);
    for (; outer * length + s < end; ++outer)
      for (int64_t i = 0; i < inner; ++i)
        rotate(x + outer * args.x.outer + s * args.x.s + i * args.x.inner,
               out + outer * args.out.outer + s * args.out.s + i * args.out.inner, cosines, sines, pairs, width);
  }
}

} // namespace

void rotary(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto args = abi::library::load<RotaryScalars>(scalars);
  withElement(args.element, [&](auto element) { rotaryOf<decltype(element)>(buffers, args, begin, end); });
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
