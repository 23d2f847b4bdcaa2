#include "tools/dtc/advice/Figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace dtc {

int64_t axisSize(const abi::Mesh &mesh, std::string_view axis) {
  for (const abi::Axis &each : mesh.axes())
    if (each.name() == axis)
      return each.size();
  return 1;
}

std::string percentText(double share) {
  constexpr double hundred = 100;
  return fmt::format("{:.3g}%", hundred * share);
}

double waitedFor(const timing::Forecast &forecast, const CommandSet &commands) {
  std::map<int, double> byRank;
  double most = 0;
  for (const timing::Culprit &culprit : forecast.culprits)
    if (commands.contains(std::pair(culprit.list, culprit.command)))
      most = std::max(most, byRank[culprit.rank] += culprit.moving);
  return most;
}

} // namespace dtc
