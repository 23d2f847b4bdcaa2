#include "tools/dtc/report/Load.h"

#include "runtime/abi/roles.h"
#include "runtime/observe/stragglers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtc {

using Json = nlohmann::ordered_json;

/// How long at least one of the slices is active.
static double coveredBy(std::vector<std::pair<double, double>> spans) {
  std::ranges::sort(spans);
  double covered = 0, end = 0;
  for (const auto &[begin, stop] : spans) {
    covered += std::max(0.0, stop - std::max(begin, end));
    end = std::max(end, stop);
  }
  return covered;
}

static RankLoad loadOf(int64_t number, const RankTrace &rank) {
  RankLoad load{number};
  std::vector<std::pair<double, double>> exchanges;
  for (const auto &[thread, lane] : rank.lanes)
    for (const TraceSlice &slice : lane.slices) {
      if (!rank.isInStep(slice))
        continue;
      bool isCompute = thread == rank.lanes.begin()->first;
      if (slice.kind == SliceKind::Exchange)
        exchanges.emplace_back(slice.begin, slice.end());
      else if (slice.kind == SliceKind::Wait)
        load.wait += slice.length;
      else if (isCompute && slice.kind != SliceKind::Start)
        load.compute += slice.length;
    }
  load.communication = coveredBy(std::move(exchanges));
  for (const RankTrace::Step &step : rank.steps)
    load.step += step.end - step.begin;
  constexpr double microsecond = 1e-6;
  for (double *time : {&load.step, &load.compute, &load.wait, &load.communication})
    *time *= microsecond / static_cast<double>(rank.steps.size());
  return load;
}

std::vector<RankLoad> loadsOf(const RunTrace &trace) {
  std::vector<RankLoad> loads;
  for (const auto &[number, rank] : trace.ranks)
    if (!rank.steps.empty())
      loads.push_back(loadOf(number, rank));
  return loads;
}

/// The number of each rank's role; where the program is unknown, all ranks are taken to have equal work.
static std::vector<int> rolesOf(const std::vector<RankLoad> &loads, const abi::Manifest *manifest) {
  std::vector<int> roles(loads.size());
  for (size_t i = 0; manifest && i < loads.size(); ++i)
    for (int role = 0; role < manifest->roles_size(); ++role)
      for (const abi::RankRange &range : manifest->roles(role).ranks())
        if (abi::contains(range, loads[i].rank))
          roles[i] = role;
  return roles;
}

Json loadJson(const RunTrace &trace, const abi::Manifest *manifest) {
  std::vector<RankLoad> loads = loadsOf(trace);
  Json ranks = Json::array(), slow = Json::array();
  std::vector<double> seconds;
  for (const RankLoad &load : loads) {
    ranks.push_back(
        {{"rank", load.rank}, {"compute", load.compute}, {"wait", load.wait}, {"communication", load.communication}});
    seconds.push_back(load.compute);
  }
  for (const Straggler &each : findStragglers(seconds, rolesOf(loads, manifest)))
    slow.push_back(
        {{"rank", loads[static_cast<size_t>(each.rank)].rank}, {"times_median", each.seconds / each.median}});
  ComputeTimes times(seconds);
  return {{"ranks", ranks},
          {"median", times.median},
          {"variation", times.variation},
          {"straggler_factor", StragglerFactor},
          {"stragglers", slow}};
}

} // namespace dtc
