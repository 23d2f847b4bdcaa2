#include "runtime/kernels/variant.h"

#include "runtime/kernels/scratch.h"

#include <math.h>

namespace dtc::kernels::DTC_KERNEL_LEVEL {
namespace {

/// Cosines and sines of one position: `half` of each. In f64, since f32 angles of large positions lose digits.
void fillAngles(const double *frequencies, double position, double sign, int64_t half, float *cosines, float *sines) {
  for (int64_t i = 0; i < half; ++i) {
    double angle = position * frequencies[i];
    cosines[i] = static_cast<float>(cos(angle));
    sines[i] = static_cast<float>(sign * sin(angle));
  }
}

template <class T> void rotate(const T *x, T *out, const float *cosines, const float *sines, int64_t half) {
  for (int64_t i = 0; i < half; i += lanes) {
    Mask mask = firstLanes(smaller(lanes, half - i));
    Vec c = load(cosines + i, mask), s = load(sines + i, mask);
    Vec first = load(x + i, mask), second = load(x + half + i, mask);
    store(out + i, fma(first, c, splat(0.0f) - second * s), mask);
    store(out + half + i, fma(second, c, first * s), mask);
  }
}

template <class T> void rotaryOf(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const T *x = static_cast<const T *>(buffers[0]);
  const int32_t *positions = static_cast<const int32_t *>(buffers[1]);
  T *out = static_cast<T *>(buffers[2]);
  int64_t length = scalars[1], inner = scalars[2], half = scalars[3] / 2;
  double theta = __builtin_bit_cast(double, scalars[4]), sign = static_cast<double>(scalars[5]);
  const int64_t *strides = scalars + 6, *outStrides = scalars + 9;
  float *cosines = threadScratch(4 * half), *sines = cosines + half;
  double *frequencies = reinterpret_cast<double *>(sines + half);
  for (int64_t i = 0; i < half; ++i)
    frequencies[i] = pow(theta, -static_cast<double>(i) / static_cast<double>(half));
  // Each position's angles once, for all outer indices of this part of the grid.
  for (int64_t s = 0; s < length; ++s) {
    int64_t outer = begin <= s ? 0 : (begin - s + length - 1) / length;
    if (outer * length + s >= end)
      continue;
    fillAngles(frequencies, positions[s], sign, half, cosines, sines);
    for (; outer * length + s < end; ++outer)
      for (int64_t i = 0; i < inner; ++i)
        rotate(x + outer * strides[0] + s * strides[1] + i * strides[2],
               out + outer * outStrides[0] + s * outStrides[1] + i * outStrides[2], cosines, sines, half);
  }
}

} // namespace

void rotary(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  withElement(scalars[12], [&](auto element) { rotaryOf<decltype(element)>(buffers, scalars, begin, end); });
}

} // namespace dtc::kernels::DTC_KERNEL_LEVEL
