// Finds the ranks that slow down the others: those whose own computation takes longer, not those that wait for them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace dtc {

/// How long ranks computed in one step.
struct ComputeTimes {
  double min = 0, median = 0, max = 0; ///< seconds
  double variation = 0;                ///< their coefficient of variation: standard deviation over mean
  int slowest = 0;                     ///< the rank of `max`; the first if there are several

  /// `seconds`: by rank. All results are 0 if it is empty.
  explicit ComputeTimes(std::span<const double> seconds);
};

/// A rank is slow if it computes this many times as long as the median of the ranks with equal work,
inline constexpr double StragglerFactor = 1.2;
/// and at least this many seconds longer: smaller differences are noise.
inline constexpr double StragglerSeconds = 1e-3;
/// A rank that was slow in this many consecutive steps is reported.
inline constexpr int StragglerSteps = 20;

struct Straggler {
  int rank;
  double seconds, median; ///< the rank's, and of those with equal work
};
/// The slow ones among all. `work`: a number for each rank, the same for equal work.
std::vector<Straggler> findStragglers(std::span<const double> seconds, std::span<const int> work);

/// Watches the steps of a run.
class StragglerWatch {
public:
  explicit StragglerWatch(std::vector<int> work) : work(std::move(work)), steps(this->work.size()) {}

  /// The message about a step: which ranks have now been slow for long; may be empty. A rank is reported once until it
  /// has been as fast as others again.
  [[nodiscard]] std::string step(std::span<const double> seconds);

private:
  std::vector<int> work, steps; // by rank; steps: consecutive slow steps
};

} // namespace dtc
