#include "tools/dtc/forecast/Spread.h"

#include "timing/cost/fit.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace dtc {

double spreadOf(const std::vector<double> &steps) {
  double middle = timing::median(steps);
  std::vector<double> distances;
  for (double seconds : steps)
    distances.push_back(std::abs(seconds - middle) / middle);
  return timing::median(distances);
}

std::string loadWarning(const std::vector<double> &spreads) {
  constexpr double Much = 0.05;
  double typical = timing::median(spreads);
  if (typical <= Much)
    return "";
  return fmt::format(
      "half of the steps of a program differ by more than {:.0f}% from its median, and by {:.0f}% of the "
      "worst one: something else runs on this machine, or it changes its clock; calibrate again when it "
      "is idle",
      100 * typical, 100 * *std::ranges::max_element(spreads));
}

} // namespace dtc
