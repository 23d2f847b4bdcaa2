#include "timing/cost/scaling.h"

namespace dtc::timing {

double trainingFlops(double parameters, double tokens) { return 6 * parameters * tokens; }

double recomputedTrainingFlops(double parameters, double tokens) { return 8 * parameters * tokens; }

double computeOptimalTokens(double parameters) { return 20 * parameters; }

/// The s for which s * x is nearest to y over all speed-ups.
template <typename X, typename Y> static double slope(std::span<const Speedup> speedups, X x, Y y) {
  double products = 0, squares = 0;
  for (const Speedup &speedup : speedups) {
    auto ranks = static_cast<double>(speedup.ranks);
    products += x(ranks) * y(ranks, speedup.times);
    squares += x(ranks) * x(ranks);
  }
  return squares > 0 ? products / squares : 0;
}

double serialShareByAmdahl(std::span<const Speedup> speedups) {
  return slope(
      speedups, [](double ranks) { return 1 - 1 / ranks; },
      [](double ranks, double times) { return 1 / times - 1 / ranks; });
}

double serialShareByGustafson(std::span<const Speedup> speedups) {
  return slope(
      speedups, [](double ranks) { return ranks - 1; }, [](double ranks, double times) { return ranks - times; });
}

} // namespace dtc::timing
