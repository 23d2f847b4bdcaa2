#include "tools/dtc/forecast/MeasuredTrace.h"

#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "timing/events/step.h"
#include "tools/dtc/report/RunTrace.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

/// Between two commands, in microseconds; a longer gap is the host's, between lists.
static constexpr double LongestGap = 20;
static constexpr double Micro = 1e-6;

/// What the compute stream did, in order of start times: starts and waits too, but not the transfers meanwhile.
static std::vector<const TraceSlice *> computeOf(const RankTrace &rank) {
  std::vector<const TraceSlice *> ordered;
  for (const auto &[thread, lane] : rank.lanes)
    for (const TraceSlice &slice : lane.slices)
      if (slice.kind != SliceKind::Exchange)
        ordered.push_back(&slice);
  std::ranges::sort(ordered, {}, &TraceSlice::begin);
  return ordered;
}

static bool isWork(const TraceSlice &slice) { return slice.kind != SliceKind::Start && slice.kind != SliceKind::Wait; }

/// A step also lasts for the gaps between its commands, as far as they are counted with the commands. Seconds.
static double hostSeconds(const RankTrace::Step &step, const std::vector<const TraceSlice *> &ordered) {
  double covered = 0, until = step.begin;
  for (const TraceSlice *slice : ordered)
    if (slice->begin >= step.begin && slice->end() <= step.end) {
      double begin = slice->begin - until < LongestGap ? until : slice->begin;
      covered += std::max(0.0, slice->end() - std::max(begin, until));
      until = std::max(until, slice->end());
    }
  return Micro * (step.end - step.begin - covered);
}

MeasuredTrace::MeasuredTrace(const abi::Manifest &manifest, const std::string &path) : path(path) {
  for (const abi::CommandList &list : manifest.lists())
    lists.emplace(list.name(), &list);
  RunTrace trace = RunTrace::parse(MappedFile(path).text(), path);
  if (trace.isEmpty())
    throw Error(ExitCode::BadInput, path + ": nothing was traced; a run traces steps with --trace 3-5");
  std::map<int64_t, double> longest; // of steps, by number
  for (const auto &[number, rank] : trace.ranks) {
    std::vector<const TraceSlice *> ordered = computeOf(rank);
    addKernels(ordered, trace.names);
    for (const RankTrace::Step &step : rank.steps) {
      hostsOfSteps.push_back(hostSeconds(step, ordered));
      longest[step.number] = std::max(longest[step.number], Micro * (step.end - step.begin));
    }
  }
  for (auto &[number, seconds] : longest)
    stepSeconds.push_back(seconds);
}

const abi::Command &MeasuredTrace::commandOf(const std::string &name, int64_t command) const {
  auto list = lists.find(name);
  if (list == lists.end() || command < 0 || command >= list->second->commands_size())
    throw Error(
        ExitCode::BadInput,
        fmt::format(
            "{}: it has command {} of list '{}', which the program does not have: it is the trace of another program",
            path, command, name));
  return list->second->commands(static_cast<int>(command));
}

void MeasuredTrace::addKernels(const std::vector<const TraceSlice *> &ordered, const std::vector<std::string> &names) {
  for (size_t i = 0; i < ordered.size(); ++i) {
    const TraceSlice &slice = *ordered[i];
    if (!isWork(slice))
      continue;
    const std::string &list = names[slice.list];
    const abi::Command &command = commandOf(list, slice.command);
    if (!command.has_launch() && !command.has_copy())
      continue;
    bool isClose = i + 1 < ordered.size() && ordered[i + 1]->begin - slice.end() < LongestGap;
    double end = isClose ? std::max(ordered[i + 1]->begin, slice.end()) : slice.end();
    double seconds = Micro * (end - slice.begin);
    observations.push_back({timing::workOf(command), seconds});
    secondsOf[{list, static_cast<uint32_t>(slice.command)}].push_back(seconds);
  }
}

std::map<std::pair<std::string, uint32_t>, double> MeasuredTrace::medians() const {
  std::map<Place, double> all;
  for (const auto &[place, seconds] : secondsOf)
    all[place] = timing::median(seconds);
  return all;
}

} // namespace dtc
