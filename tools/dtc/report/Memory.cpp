#include "tools/dtc/report/Memory.h"

#include "runtime/abi/roles.h"
#include "tools/dtc/report/Lifetimes.h"
#include "tools/dtc/report/Series.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace dtc {

using Json = nlohmann::ordered_json;

/// A step of more commands would take long to look at.
static constexpr int64_t MostCommands = 1 << 18;
/// As many as a page is wide.
static constexpr size_t MostPoints = 1500;

/// What of the memory plan is not there all the time; the rest is.
static bool comesAndGoes(const std::string &category) {
  constexpr std::array names = {
      "activations and workspace", "communication buffers", "stash of micro-batches under way",
      "receive buffers",           "send buffers",          "alignment"};
  return std::ranges::find(names, category) != names.end();
}

/// When each command of a step began, in microseconds from the step's begin, on a rank that plays the role; of the
/// first step traced. None where the trace has no such step.
static std::optional<std::vector<double>> timesOf(const std::vector<StepCommand> &commands, const RunTrace &trace,
                                                  int64_t number) {
  auto rank = trace.ranks.find(number);
  if (rank == trace.ranks.end() || rank->second.steps.empty())
    return std::nullopt;
  const RankTrace::Step &step = rank->second.steps.front();
  std::map<StepCommand, std::vector<double>> begins;
  for (const auto &[thread, lane] : rank->second.lanes)
    for (const TraceSlice &slice : lane.slices)
      if (slice.begin >= step.begin && slice.begin < step.end)
        begins[{trace.names[slice.list], slice.command}].push_back(slice.begin - step.begin);
  std::map<StepCommand, size_t> seen;
  std::vector<double> times;
  size_t found = 0;
  for (const StepCommand &command : commands) {
    const std::vector<double> &all = begins[command];
    // A start is told twice, on compute and on its channel: once for each time it runs, in the order of lanes.
    size_t turn = seen[command]++;
    double before = times.empty() ? 0 : times.back();
    found += turn < all.size();
    times.push_back(turn < all.size() ? std::max(before, all[turn]) : before);
  }
  if (found * 10 < commands.size() * 9)
    return std::nullopt; // of another program
  return times;
}

/// The commands to draw: peaks stay.
static std::vector<int64_t> pointsOf(const StepLifetimes &lifetimes) {
  Series total;
  for (size_t i = 0; i < lifetimes.commands.size(); ++i)
    total.add(static_cast<int64_t>(i), static_cast<double>(lifetimes.work[i] + lifetimes.visible[i]));
  return thinned(total, MostPoints).steps;
}

static Json overTime(const StepLifetimes &lifetimes, const std::optional<std::vector<double>> &times) {
  Json at = Json::array(), work = Json::array(), visible = Json::array();
  for (int64_t point : pointsOf(lifetimes)) {
    auto i = static_cast<size_t>(point);
    at.push_back(times ? Json(static_cast<int64_t>((*times)[i])) : Json(point));
    work.push_back(lifetimes.work[i]);
    visible.push_back(lifetimes.visible[i]);
  }
  return {{"unit", times ? "microseconds" : "commands"},
          {"at", at},
          {"bytes", {{"activations and workspace", work}, {"communication buffers", visible}}}};
}

Json memoryJson(const abi::Manifest &manifest, const RunTrace *trace) {
  Json roles = Json::array();
  for (const abi::Role &role : manifest.roles()) {
    Json plan = Json::object(), fixed = Json::object();
    for (const abi::MemoryUse &use : role.memory()) {
      plan[use.category()] = use.bytes();
      if (!comesAndGoes(use.category()) && use.bytes() > 0)
        fixed[use.category()] = use.bytes();
    }
    Json answer = {{"role", role.name()}, {"arena_bytes", role.arena_bytes()}, {"plan", plan}, {"always", fixed}};
    StepLifetimes lifetimes = StepLifetimes::of(manifest, role, MostCommands);
    if (!lifetimes.commands.empty()) {
      int rank = abi::firstRankOf(role);
      std::optional<std::vector<double>> times;
      if (trace)
        times = timesOf(lifetimes.commands, *trace, rank);
      answer["rank"] = rank;
      answer["over_time"] = overTime(lifetimes, times);
    }
    roles.push_back(std::move(answer));
  }
  return roles;
}

} // namespace dtc
