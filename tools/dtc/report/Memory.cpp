#include "tools/dtc/report/Memory.h"

#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "timing/events/memory.h"
#include "tools/dtc/report/Series.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace dtc {

using Json = nlohmann::ordered_json;

/// A step of more commands would take too long to examine.
static constexpr size_t MostCommands = 1 << 18;
/// As many points as a page is wide.
static constexpr size_t MostSpacePoints = 1500;

/// A command of a step, by its list and its index there.
using StepCommand = std::pair<std::string, int64_t>;

static std::vector<StepCommand> commandsOf(const abi::Role &role, const timing::StepMemory &memory) {
  const abi::Timetable &timetable = abi::timetableOf(role, abi::stepTimetable);
  abi::Unrolled entries = abi::unroll(timetable, abi::stepsToJudge(timetable)); // as StepMemory does
  std::vector<StepCommand> commands;
  for (size_t entry = 0; entry < entries.size(); ++entry)
    for (size_t at = memory.firstCommands()[entry]; at < memory.firstCommands()[entry + 1]; ++at)
      commands.emplace_back(entries[entry].entry->list(), at - memory.firstCommands()[entry]);
  return commands;
}

/// When each command of a step began, in microseconds from the start of the step, on a rank that plays the role; in the
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
    // A start is traced twice, on compute and on its channel: once for each time it runs, in the order of lanes.
    size_t turn = seen[command]++;
    double before = times.empty() ? 0 : times.back();
    found += turn < all.size();
    times.push_back(turn < all.size() ? std::max(before, all[turn]) : before);
  }
  if (found * 10 < commands.size() * 9)
    return std::nullopt; // a trace of another program
  return times;
}

/// The commands to draw; peaks are kept.
static std::vector<int64_t> pointsOf(const timing::StepMemory &memory) {
  Series total;
  for (size_t at = 0; at < memory.commands(); ++at)
    total.add(static_cast<int64_t>(at), static_cast<double>(memory.liveAt(at)));
  return thinned(total, MostSpacePoints).steps;
}

static Json overTime(const timing::StepMemory &memory, const std::optional<std::vector<double>> &times) {
  Json at = Json::array(), bytes = Json::object();
  for (int64_t point : pointsOf(memory)) {
    auto command = static_cast<size_t>(point);
    at.push_back(times ? Json(static_cast<int64_t>((*times)[command])) : Json(point));
    for (const timing::MemoryCategory &category : memory.categories())
      bytes[category.name].push_back(category.live[command]);
  }
  return {{"unit", times ? "microseconds" : "commands"}, {"at", at}, {"bytes", bytes}};
}

/// The buffers that exist all the time, and those that come and go in a step.
static void addStep(const abi::Manifest &manifest, const abi::Role &role, const RunTrace *trace, Json &answer) {
  timing::StepMemory memory(manifest, role, abi::stepTimetable);
  answer["always"] = Json::object();
  for (const auto &[category, bytes] : memory.always())
    if (bytes > 0)
      answer["always"][category] = bytes;
  int rank = abi::firstRankOf(role);
  answer["rank"] = rank;
  answer["over_time"] = overTime(memory, trace ? timesOf(commandsOf(role, memory), *trace, rank) : std::nullopt);
}

Json memoryJson(const abi::Manifest &manifest, const RunTrace *trace) {
  Json roles = Json::array();
  for (const abi::Role &role : manifest.roles()) {
    Json plan = Json::object();
    for (const abi::MemoryUse &use : role.memory())
      plan[use.category()] = use.bytes();
    Json answer = {{"role", role.name()}, {"arena_bytes", role.arena_bytes()}, {"plan", plan}};
    if (size_t commands = timing::StepMemory::commandsIn(manifest, role, abi::stepTimetable);
        commands > 0 && commands <= MostCommands)
      addStep(manifest, role, trace, answer);
    roles.push_back(std::move(answer));
  }
  return roles;
}

} // namespace dtc
