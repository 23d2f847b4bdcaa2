// The frequencies of rotary position embeddings, in one place for the compiler, the kernels and verify.
//
// Pair i of n turns by position * f(i), with f(i) = theta^(-i/n) in the paper (Su et al., arXiv:2104.09864). Methods
// that stretch a model's context divide some frequencies by a factor and keep others: with a share kept(i) in [0, 1],
//   f'(i) = f(i) kept(i) + f(i) / factor (1 - kept(i)),   kept(i) = clamp(perFrequency f(i) + perPair i + constant).
// Linear scaling keeps nothing; Llama 3.1's share is linear in the frequency; YaRN's in the number of the pair
// (Peng et al., arXiv:2309.00071), which also multiplies cosines and sines by an amplitude.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtc::abi {

struct RotaryScaling {
  double factor = 1;
  double perFrequency = 0, perPair = 0, constant = 0;
  double amplitude = 1;
};

/// Always inlined: kernels are compiled for several processors, and the linker would keep one copy for all.
[[gnu::always_inline]] inline double rotaryFrequency(double theta, int64_t pairs, const RotaryScaling &scaling,
                                                     int64_t pair) {
  double frequency = pow(theta, -static_cast<double>(pair) / static_cast<double>(pairs));
  double kept = scaling.perFrequency * frequency + scaling.perPair * static_cast<double>(pair) + scaling.constant;
  kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
  return frequency * (kept + (1 - kept) / scaling.factor);
}

} // namespace dtc::abi
