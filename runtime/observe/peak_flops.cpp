#include "runtime/observe/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <immintrin.h>

namespace dtc {

// Two units of latency 4 keep eight multiply-adds in flight; twelve leave room.
static constexpr int Chains = 12;

__attribute__((target("avx512f"))) static float multiply512(int64_t rounds) {
  __m512 sums[Chains], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (__m512 &sum : sums)
    sum = term;
  for (int64_t round = 0; round < rounds; ++round)
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, factor, term);
  __m512 total = sums[0];
  for (int chain = 1; chain < Chains; ++chain)
    total = _mm512_add_ps(total, sums[chain]);
  return _mm512_cvtss_f32(total);
}

__attribute__((target("avx2,fma"))) static float multiply256(int64_t rounds) {
  __m256 sums[Chains], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (__m256 &sum : sums)
    sum = term;
  for (int64_t round = 0; round < rounds; ++round)
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, factor, term);
  __m256 total = sums[0];
  for (int chain = 1; chain < Chains; ++chain)
    total = _mm256_add_ps(total, sums[chain]);
  return _mm256_cvtss_f32(total);
}

double measurePeakFlops() {
  bool wide = __builtin_cpu_supports("avx512f");
  constexpr int64_t Rounds = 1000000;
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    auto begin = std::chrono::steady_clock::now();
    [[maybe_unused]] volatile float result = wide ? multiply512(Rounds) : multiply256(Rounds);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2.0 * (wide ? 16 : 8) * Chains * Rounds / seconds);
  }
  return best;
}

double peakShare(double peakOfCore, int threads, int cores, int ranks) {
  return peakOfCore * std::min<double>(threads, std::max(1.0, static_cast<double>(cores) / ranks));
}

} // namespace dtc
