// Counter-based random numbers: a pure function of (seed, step, site, element index), so that a dropout mask or an
// initial weight is the same under any layout, schedule or recomputation.
//
// The mixer is a 32-bit bijection with full avalanche (two multiply-xorshift rounds; constants found by Chris
// Wellons's hash-prospector search). Generated kernels emit the same arithmetic on vectors; the reference interpreter
// calls these functions.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtc::random {

/// Mixes a number, or each number of a vector. Always inlined: kernels are compiled for several processors, and the
/// linker would keep one copy for all (runtime/kernels/cpu/simd.h).
template <typename Bits> [[gnu::always_inline]] inline Bits mix(Bits x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

/// One stream per use of randomness. `site` is the number of that use in the model.
inline uint32_t stream(uint32_t seed, uint32_t step, uint32_t site) {
  return mix(mix(mix(seed) + 0x9e3779b9u + step) + 0x85ebca6bu + site);
}

/// 32 uniform bits for one element of a stream.
inline uint32_t bits(uint32_t stream, uint64_t index) {
  uint32_t low = static_cast<uint32_t>(index), high = static_cast<uint32_t>(index >> 32);
  return mix(mix(low ^ stream) + high + (stream << 1 | 1));
}

/// Uniform in [0, 1), a multiple of 2^-24: exact in f32 and f64 alike.
inline double uniform(uint32_t stream, uint64_t index) { return (bits(stream, index) >> 8) * 0x1p-24; }

/// Standard normal by Box and Muller's transform; element i uses draws 2i and 2i + 1.
inline double normal(uint32_t stream, uint64_t index) {
  double u = 1.0 - uniform(stream, 2 * index), v = uniform(stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

} // namespace dtc::random
