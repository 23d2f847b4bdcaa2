// Laws of scaling: how much work a training is, and what speed-ups say of it.
#pragma once

#include <cstdint>
#include <span>

namespace dtc::timing {

/// Operations that training takes by the model's own count: six for each parameter and token, two forwards and four
/// backwards (Kaplan et al. 2020). Attention's products between tokens are not in it.
double trainingFlops(double parameters, double tokens);

/// Of a layer that is computed once more in the backward pass, as machines count them: eight for each parameter and
/// token (Narayanan et al. 2021, whose days are of these).
double recomputedTrainingFlops(double parameters, double tokens);

/// About twenty tokens for each parameter: what makes the best of a given amount of computation (Hoffmann et al. 2022).
double computeOptimalTokens(double parameters);

/// A measured or foretold speed-up on `ranks`, at least 2, against one.
struct Speedup {
  int64_t ranks;
  double times;
};

/// The serial share s of the same problem on more ranks, 1 / (s + (1 - s) / p) (Amdahl 1967), that is nearest to all of
/// them: of least squares in the time, 1 / speed-up. Of one alone, Karp and Flatt's. Negative where they are better
/// than linear.
double serialShareByAmdahl(std::span<const Speedup> speedups);

/// That of a problem that grows with the ranks, p - s (p - 1) (Gustafson 1988): of least squares in the speed-up.
double serialShareByGustafson(std::span<const Speedup> speedups);

} // namespace dtc::timing
