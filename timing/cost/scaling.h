// Laws of scaling: how much work a training run is, and what speed-ups say about it.
#pragma once

#include <cstdint>
#include <span>

namespace dtc::timing {

/// Operations that training takes by the model's own count: six for each parameter and token, two in the forward pass
/// and four in the backward pass (Kaplan et al. 2020). Attention's products between tokens are not included.
double trainingFlops(double parameters, double tokens);

/// The same where layers are recomputed in the backward pass, as the hardware executes them: eight for each parameter
/// and token (Narayanan et al. 2021, whose training times in days count these).
double recomputedTrainingFlops(double parameters, double tokens);

/// About twenty tokens for each parameter: the best use of a given amount of computation (Hoffmann et al. 2022).
double computeOptimalTokens(double parameters);

/// A measured or predicted speed-up on `ranks`, at least 2, over one rank.
struct Speedup {
  int64_t ranks;
  double times;
};

/// The serial share s of the same problem on more ranks, 1 / (s + (1 - s) / p) (Amdahl 1967), that is nearest to all of
/// them: by least squares in the time, 1 / speed-up. For a single speed-up this is Karp and Flatt's. Negative where
/// they are better than linear.
double serialShareByAmdahl(std::span<const Speedup> speedups);

/// The serial share for a problem that grows with the ranks, p - s (p - 1) (Gustafson 1988): by least squares in the
/// speed-up.
double serialShareByGustafson(std::span<const Speedup> speedups);

} // namespace dtc::timing
