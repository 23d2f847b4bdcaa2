#include "tools/dtc/report/Pipeline.h"

#include "passes/choices/PipelineTimetable.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "tools/dtc/schedule/Picture.h"
#include "tools/dtc/schedule/ScheduleText.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace dtc {

using Json = nlohmann::ordered_json;

/// The mesh axis along which stages are placed.
static constexpr std::string_view PipelineAxis = "pp";

/// The ranks that differ from rank 0 in their stages only.
static std::vector<int64_t> ranksOfPipeline(const abi::Mesh &mesh) {
  int64_t stride = 1;
  for (int at = mesh.axes_size(); at-- > 0; stride *= mesh.axes(at).size()) {
    if (mesh.axes(at).name() != PipelineAxis)
      continue;
    std::vector<int64_t> ranks;
    for (int64_t place = 0; place < mesh.axes(at).size(); ++place)
      ranks.push_back(place * stride);
    return ranks;
  }
  return {0};
}

bool hasPipeline(const abi::Manifest &manifest) {
  return ranksOfPipeline(manifest.mesh()).size() > 1 && abi::stepsAhead(manifest, abi::stepTimetable) == 0;
}

static std::optional<timetables::Kind> passOf(abi::CommandList::Duty duty) {
  switch (duty) {
  case abi::CommandList::FORWARD_PASS:
    return timetables::Kind::Forward;
  case abi::CommandList::BACKWARD_PASS:
    return timetables::Kind::Backward;
  case abi::CommandList::INPUT_GRADIENTS:
    return timetables::Kind::BackwardInput;
  case abi::CommandList::WEIGHT_GRADIENTS:
    return timetables::Kind::BackwardWeight;
  default:
    return std::nullopt;
  }
}

namespace {

/// Slices of one entry of a role's timetable. Microseconds, without waits at either end.
struct EntrySlices {
  uint32_t list = 0;
  double begin = 0, end = 0;
};

/// The rows of one step, from the traces of its ranks.
class StepReader {
public:
  StepReader(const RunTrace &trace, const abi::Manifest &manifest) : trace(trace), manifest(manifest) {
    for (const abi::CommandList &list : manifest.lists())
      duties.emplace(list.name(), list.duty());
  }

  std::optional<PipelineStep> read(int64_t number);

private:
  bool addRow(int64_t rank, int64_t number);
  void finish();

  const RunTrace &trace;
  const abi::Manifest &manifest;
  std::map<std::string_view, abi::CommandList::Duty> duties; ///< by list
  PipelineStep step;
};

} // namespace

/// What compute does in a step, divided where another list begins, or the same one begins again.
static std::vector<EntrySlices> divide(const std::vector<TraceSlice> &slices, const RankTrace::Step &step) {
  std::vector<EntrySlices> all;
  int64_t before = 0;
  bool isWaiting = false; // since the beginning of the last one
  for (auto slice = std::ranges::lower_bound(slices, step.begin, {}, &TraceSlice::begin);
       slice != slices.end() && slice->begin < step.end; ++slice) {
    if (all.empty() || slice->list != all.back().list || slice->command <= before) {
      all.push_back({slice->list, slice->end(), slice->end()});
      isWaiting = true;
    }
    before = slice->command;
    if (slice->kind == SliceKind::Wait)
      continue;
    if (isWaiting)
      all.back().begin = slice->begin;
    isWaiting = false;
    all.back().end = slice->end();
  }
  return all;
}

/// Adds what a rank does. False if that is not what its timetable says.
bool StepReader::addRow(int64_t rank, int64_t number) {
  auto traced = trace.ranks.find(rank);
  if (traced == trace.ranks.end() || traced->second.lanes.empty())
    return false;
  auto its = std::ranges::find(traced->second.steps, number, &RankTrace::Step::number);
  if (its == traced->second.steps.end())
    return false;
  auto row = static_cast<int32_t>(step.ranks.size());
  step.ranks.push_back(rank);
  std::vector<timetables::Entry> &passes = step.timetable.ranks.emplace_back();
  std::vector<timetables::Interval> &intervals = step.times.entries.emplace_back();
  std::vector<EntrySlices> slices = divide(traced->second.lanes.begin()->second.slices, *its);
  auto next = slices.begin();
  const abi::Timetable &timetable = abi::timetableOf(abi::roleOf(manifest, rank), abi::stepTimetable);
  for (const abi::TimetableEntry &entry : timetable.period()) {
    auto duty = duties.find(entry.list());
    std::optional<timetables::Kind> kind = duty == duties.end() ? std::nullopt : passOf(duty->second);
    bool hasRun = next != slices.end() && trace.names[next->list] == entry.list();
    if (kind && (!hasRun || entry.stage() >= step.timetable.rankOf.size()))
      return false;
    if (kind) {
      passes.push_back({*kind, false, static_cast<int32_t>(entry.stage()), static_cast<int32_t>(entry.micro_batch())});
      intervals.push_back({next->begin, next->end});
      step.timetable.rankOf[entry.stage()] = row;
      step.timetable.microBatches = std::max(step.timetable.microBatches, passes.back().microBatch + 1);
    }
    next += hasRun; // an entry whose list has no commands of compute leaves no slice
  }
  return next == slices.end();
}

/// Makes the times count from the first pass on, and adds them up.
void StepReader::finish() {
  double first = std::numeric_limits<double>::max();
  for (const std::vector<timetables::Interval> &row : step.times.entries)
    for (const timetables::Interval &pass : row)
      first = std::min(first, pass.begin);
  auto secondsAt = [&](double microseconds) { return std::round((microseconds - first) * 1e3) / 1e9; };
  for (std::vector<timetables::Interval> &row : step.times.entries) {
    double work = 0;
    for (timetables::Interval &pass : row) {
      pass = {secondsAt(pass.begin), secondsAt(pass.end)};
      work += pass.end - pass.begin;
      step.times.seconds = std::max(step.times.seconds, pass.end);
    }
    step.times.work.push_back(work);
  }
  for (double work : step.times.work)
    step.times.idle.push_back(step.times.seconds - work);
}

std::optional<PipelineStep> StepReader::read(int64_t number) {
  step = {};
  step.number = number;
  step.timetable.name = timetableTitle(manifest.timetable());
  step.timetable.rankOf.assign(static_cast<size_t>(manifest.stages_size()), -1);
  for (int64_t rank : ranksOfPipeline(manifest.mesh()))
    if (!addRow(rank, number))
      return std::nullopt;
  finish();
  if (!(step.times.seconds > 0))
    return std::nullopt;
  return std::move(step);
}

std::optional<PipelineStep> pipelineStepOf(const RunTrace &trace, const abi::Manifest &manifest) {
  auto first = trace.ranks.find(0);
  if (first == trace.ranks.end())
    return std::nullopt;
  StepReader reader(trace, manifest);
  std::vector<PipelineStep> steps;
  for (const RankTrace::Step &step : first->second.steps)
    if (std::optional<PipelineStep> read = reader.read(step.number))
      steps.push_back(std::move(*read));
  if (steps.empty())
    return std::nullopt;
  auto median = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::ranges::nth_element(steps, median, {}, [](const PipelineStep &step) { return step.times.seconds; });
  return std::move(*median);
}

static Json stepJson(const PipelineStep &step, double seconds, bool isDrawn) {
  const timetables::Simulated &times = step.times;
  Json json = {{"step", step.number},
               {"seconds", times.seconds},
               {"work", times.meanWork()},
               {"bubble_overhead", times.bubbleOverhead()},
               {"bubble_fraction", times.bubbleFraction()},
               {"ranks", Json::array()}};
  for (size_t row = 0; row < step.ranks.size(); ++row) {
    json["ranks"].push_back({{"rank", step.ranks[row]},
                             {"stages", timetables::stagesOf(step.timetable, static_cast<int32_t>(row))},
                             {"work", times.work[row]},
                             {"idle", times.idle[row]}});
    if (isDrawn)
      json["ranks"].back()["entries"] = entriesJson(step.timetable, times, row);
  }
  if (isDrawn)
    json["svg"] = scheduleSvg(step.timetable, times,
                              {.seconds = seconds, .factor = 1e3, .unit = " ms", .rankNumbers = step.ranks});
  return json;
}

Json pipelineJson(const abi::Manifest &manifest, const PipelineStep *predicted, const PipelineStep *measured,
                  size_t most) {
  Json json = {{"timetable", timetableTitle(manifest.timetable())}, {"stages", manifest.stages_size()}};
  double seconds = std::max(predicted ? predicted->times.seconds : 0, measured ? measured->times.seconds : 0);
  for (auto [source, step] : {std::pair{"predicted", predicted}, {"measured", measured}})
    if (step)
      json[source] = stepJson(*step, seconds, timetables::countEntries(step->timetable) <= most);
  return json;
}

} // namespace dtc
