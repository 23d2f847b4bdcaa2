#include "runtime/observe/stragglers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace dtc {

/// The median of sorted values, of which there is at least one.
static double medianOf(const std::vector<double> &sorted) {
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

ComputeTimes::ComputeTimes(std::span<const double> seconds) {
  if (seconds.empty())
    return;
  std::vector<double> sorted(seconds.begin(), seconds.end());
  std::ranges::sort(sorted);
  min = sorted.front();
  median = medianOf(sorted);
  max = sorted.back();
  slowest = static_cast<int>(std::ranges::max_element(seconds) - seconds.begin());
  auto count = static_cast<double>(sorted.size());
  double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count, squares = 0;
  for (double value : sorted)
    squares += (value - mean) * (value - mean);
  variation = mean > 0 ? std::sqrt(squares / count) / mean : 0;
}

std::vector<Straggler> findStragglers(std::span<const double> seconds, std::span<const int> work) {
  std::map<int, std::vector<double>> equals;
  for (size_t rank = 0; rank < seconds.size(); ++rank)
    equals[work[rank]].push_back(seconds[rank]);
  std::map<int, double> medians;
  for (auto &[number, values] : equals) {
    std::ranges::sort(values);
    medians[number] = medianOf(values);
  }
  std::vector<Straggler> slow;
  for (size_t rank = 0; rank < seconds.size(); ++rank)
    if (double median = medians[work[rank]]; seconds[rank] > std::max(StragglerFactor * median, median + StragglerSeconds))
      slow.push_back({static_cast<int>(rank), seconds[rank], median});
  return slow;
}

std::string StragglerWatch::step(std::span<const double> seconds) {
  std::vector<Straggler> slow = findStragglers(seconds, work);
  std::string text;
  auto next = slow.begin();
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    if (next == slow.end() || next->rank != static_cast<int>(rank)) {
      steps[rank] = 0;
      continue;
    }
    if (++steps[rank] == StragglerSteps)
      text += fmt::format("{}rank {} computes {:.3g} s a step, {:.2f} times as long as the median of ranks with equal "
                          "work",
                          text.empty() ? "" : "; ", rank, next->seconds, next->seconds / next->median);
    ++next;
  }
  return text.empty() ? ""
                      : fmt::format("{}, for {} steps in a row: the others wait for it. See what else runs on its "
                                    "processor, and how hot that is",
                                    text, StragglerSteps);
}

} // namespace dtc
