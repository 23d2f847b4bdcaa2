// Which ranks hold up the others: those whose own computing takes longer, not those that wait for them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace dtc {

/// How long ranks computed in one step.
struct ComputeTimes {
  double min = 0, median = 0, max = 0; ///< seconds
  double variation = 0;                ///< their coefficient of variation: standard deviation over mean
  int slowest = 0;                     ///< the rank of `max`; of several the first

  /// By rank; of none all is 0.
  explicit ComputeTimes(std::span<const double> seconds);
};

/// A rank is slow where it computes so many times as long as the median of the ranks that have equal work,
inline constexpr double StragglerFactor = 1.2;
/// and so many seconds longer: below that the system's own noise decides.
inline constexpr double StragglerSeconds = 1e-3;
/// A rank that was slow in so many steps in a row is told of.
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

  /// What to tell of a step: which ranks have now been slow for long. Empty: nothing. A rank is told of once until it
  /// has been as fast as others again.
  [[nodiscard]] std::string step(std::span<const double> seconds);

private:
  std::vector<int> work, steps; // by rank; steps: in a row in which it was slow
};

} // namespace dtc
