#include "tools/dtc/report/Residuals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace dtc {

using Json = nlohmann::ordered_json;

/// Seconds in a step of a rank, by class.
static std::map<std::string, double> secondsByClass(const RunTrace &trace) {
  std::map<std::string, double> seconds;
  double steps = 0; // of all ranks
  for (const auto &[number, rank] : trace.ranks) {
    steps += static_cast<double>(rank.steps.size());
    for (const auto &[thread, lane] : rank.lanes)
      for (const TraceSlice &slice : lane.slices)
        if (slice.kind != SliceKind::Start && slice.kind != SliceKind::Wait && rank.isInStep(slice))
          seconds[trace.classes[slice.work]] += slice.length;
  }
  constexpr double microsecond = 1e-6;
  for (auto &[name, sum] : seconds)
    sum *= microsecond / std::max(steps, 1.0);
  return seconds;
}

Json residualsJson(const RunTrace &predicted, const RunTrace &measured) {
  std::map<std::string, std::pair<double, double>> both;
  for (const auto &[name, seconds] : secondsByClass(predicted))
    both[name].first = seconds;
  for (const auto &[name, seconds] : secondsByClass(measured))
    both[name].second = seconds;
  std::vector<std::pair<std::string, std::pair<double, double>>> rows(both.begin(), both.end());
  std::ranges::stable_sort(rows, std::greater(),
                           [](const auto &row) { return std::abs(row.second.first - row.second.second); });
  Json answer = Json::array();
  for (const auto &[name, seconds] : rows)
    answer.push_back({{"class", name}, {"predicted", seconds.first}, {"measured", seconds.second}});
  return answer;
}

} // namespace dtc
