#include "tools/dtc/report/Timeline.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dtc {

using Json = nlohmann::ordered_json;

namespace {
/// One bar: a slice, or several that are too short to tell apart.
struct Bar {
  TraceSlice slice;
  int64_t slices = 1;
};
} // namespace

/// Slices of one kind that are shorter than `resolution`, with gaps no longer than that, are one bar.
static std::vector<Bar> merge(const std::vector<TraceSlice> &slices, double resolution) {
  std::vector<Bar> bars;
  for (const TraceSlice &slice : slices) {
    bool isShort = slice.length < resolution;
    if (!bars.empty() && isShort) {
      TraceSlice &last = bars.back().slice;
      bool grows = bars.back().slices > 1 || last.length < resolution;
      if (grows && last.kind == slice.kind && slice.begin - last.end() < resolution) {
        last.length = std::max(last.end(), slice.end()) - last.begin;
        ++bars.back().slices;
        continue;
      }
    }
    bars.push_back({slice});
  }
  return bars;
}

static size_t countBars(const RunTrace &trace, double resolution) {
  size_t count = 0;
  for (const auto &[number, rank] : trace.ranks)
    for (const auto &[thread, lane] : rank.lanes)
      count += merge(lane.slices, resolution).size();
  return count;
}

/// The finest resolution at which no more than `most` bars are drawn; 0: each slice is one bar. Where kinds alternate
/// too fast for that, more bars remain, but no more than four times as many.
static double resolutionFor(const RunTrace &trace, size_t most) {
  double whole = trace.end(), resolution = 0;
  for (double next = whole / 65536; countBars(trace, resolution) > most && next < whole / 64; next *= 2)
    resolution = next;
  return resolution;
}

/// In tenths of microseconds; a begin counts from the end of the bar before, so that numbers are small.
static Json laneJson(const RankTrace::Lane &lane, double resolution, double origin) {
  auto ticks = [](double time) { return static_cast<int64_t>(std::llround(time * 10)); };
  Json after = Json::array(), length = Json::array(), name = Json::array(), kind = Json::array(), count = Json::array();
  int64_t end = 0;
  bool isMerged = false;
  for (const Bar &bar : merge(lane.slices, resolution)) {
    int64_t begin = ticks(bar.slice.begin - origin), stop = std::max(ticks(bar.slice.end() - origin), begin);
    after.push_back(begin - end);
    length.push_back(stop - begin);
    name.push_back(bar.slice.name);
    kind.push_back(static_cast<int>(bar.slice.kind));
    count.push_back(bar.slices);
    isMerged |= bar.slices > 1;
    end = stop;
  }
  Json answer = {{"name", lane.name}, {"after", after}, {"length", length}, {"what", name}, {"kind", kind}};
  if (isMerged)
    answer["slices"] = count;
  return answer;
}

static double beginOf(const RunTrace &trace) {
  double first = trace.end();
  for (const auto &[number, rank] : trace.ranks)
    for (const RankTrace::Step &step : rank.steps)
      first = std::min(first, step.begin);
  return first;
}

static void addRows(Json &rows, const RunTrace &trace, const char *source, double resolution, double origin,
                    size_t firstName) {
  for (const auto &[number, rank] : trace.ranks) {
    Json lanes = Json::array();
    for (const auto &[thread, lane] : rank.lanes) {
      Json its = laneJson(lane, resolution, origin);
      for (Json &name : its["what"])
        name = name.get<size_t>() + firstName;
      lanes.push_back(std::move(its));
    }
    rows.push_back({{"rank", number}, {"source", source}, {"lanes", lanes}});
  }
}

/// The traced steps, from the first rank's begin to the last one's end.
static Json stepsJson(const RunTrace &trace, double origin) {
  std::map<int64_t, std::pair<double, double>> steps;
  for (const auto &[number, rank] : trace.ranks)
    for (const RankTrace::Step &step : rank.steps) {
      auto [place, isNew] = steps.try_emplace(step.number, step.begin, step.end);
      place->second.first = std::min(place->second.first, step.begin);
      place->second.second = std::max(place->second.second, step.end);
    }
  Json answer = Json::array();
  for (const auto &[number, times] : steps)
    answer.push_back({{"step", number}, {"begin", times.first - origin}, {"end", times.second - origin}});
  return answer;
}

Json timelineJson(const RunTrace &measured, const RunTrace *predicted, size_t most) {
  size_t each = predicted ? most / 2 : most;
  double resolution = resolutionFor(measured, each), origin = beginOf(measured);
  Json names = measured.names, rows = Json::array(), kinds = Json::array();
  for (size_t kind = 0; kind < SliceKinds; ++kind)
    kinds.push_back(nameOf(static_cast<SliceKind>(kind)));
  if (predicted) {
    addRows(rows, *predicted, "predicted", resolutionFor(*predicted, each), beginOf(*predicted), names.size());
    for (const std::string &name : predicted->names)
      names.push_back(name);
  }
  addRows(rows, measured, "measured", resolution, origin, 0);
  // A rank's rows are adjacent, the predicted one above.
  std::stable_sort(rows.begin(), rows.end(), [](const Json &a, const Json &b) { return a["rank"] < b["rank"]; });
  return {{"steps", stepsJson(measured, origin)},
          {"resolution", resolution},
          {"kinds", kinds},
          {"names", names},
          {"rows", rows}};
}

} // namespace dtc
