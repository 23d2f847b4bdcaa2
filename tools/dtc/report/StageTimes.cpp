#include "tools/dtc/report/StageTimes.h"

#include "runtime/program/run_files.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "timing/cost/fit.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/report/RunFolder.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace dtc {

namespace {

/// Ranks differ in their place along the pipeline by this many.
struct AlongPipeline {
  explicit AlongPipeline(const abi::Mesh &mesh) {
    for (int at = mesh.axes_size(); at-- > 0;) {
      if (mesh.axes(at).name() == "pp") {
        ranks = mesh.axes(at).size();
        return;
      }
      stride *= mesh.axes(at).size();
    }
  }
  size_t placeOf(int64_t rank) const { return static_cast<size_t>(rank / stride % ranks); }

  int64_t ranks = 1, stride = 1;
};

/// Seconds of a micro-batch on one rank, by layer.
struct RankSeconds {
  std::map<std::string, double> layers;
  double outside = 0;

  double total() const {
    return std::accumulate(layers.begin(), layers.end(), outside,
                           [](double sum, const auto &layer) { return sum + layer.second; });
  }
};

} // namespace

/// Whether the slice is time that the rank's own stages take.
static bool isOfStages(const RankTrace &rank, const TraceSlice &slice, const RunTrace &trace) {
  if (!slice.isOfPass || !rank.isInStep(slice))
    return false;
  if (slice.kind != SliceKind::Wait)
    return slice.kind != SliceKind::Start && slice.kind != SliceKind::Exchange;
  const std::string &what = trace.classes[slice.work];
  return !what.starts_with("wait for SEND") && !what.starts_with("wait for RECV");
}

/// A rank's work, of one micro-batch of its traced steps.
static RankSeconds secondsOf(const RankTrace &rank, const RunTrace &trace, int64_t microBatches) {
  constexpr int64_t compute = 0; // see runtime/observe/trace.cpp
  constexpr double microsecond = 1e-6;
  RankSeconds seconds;
  auto lane = rank.lanes.find(compute);
  if (lane == rank.lanes.end() || rank.steps.empty())
    return seconds;
  std::map<std::tuple<uint32_t, int64_t, int32_t>, std::vector<double>> runs; // by list, command and layer
  for (const TraceSlice &slice : lane->second.slices)
    if (isOfStages(rank, slice, trace))
      runs[{slice.list, slice.command, slice.layer}].push_back(slice.length);
  double share = microsecond / static_cast<double>(static_cast<int64_t>(rank.steps.size()) * microBatches);
  for (const auto &[command, lengths] : runs) {
    int32_t layer = std::get<2>(command);
    double &sum = layer < 0 ? seconds.outside : seconds.layers[trace.layers[static_cast<size_t>(layer)]];
    sum += share * static_cast<double>(lengths.size()) * timing::median(lengths);
  }
  return seconds;
}

StageProfile stageProfileOf(const RunTrace &trace, const abi::Manifest &manifest, const std::string &path) {
  AlongPipeline pipeline(manifest.mesh());
  if (pipeline.ranks == 1)
    throw Error(ExitCode::BadInput, fmt::format("{}: the run had no pipeline (its mesh was {}), so there is no cut to "
                                                "change",
                                                path, meshText(manifest.mesh())));
  int64_t microBatches = std::max<int64_t>(manifest.training().accumulation(), 1);
  std::vector<std::optional<RankSeconds>> slowest(static_cast<size_t>(pipeline.ranks));
  for (const auto &[number, rank] : trace.ranks) {
    RankSeconds seconds = secondsOf(rank, trace, microBatches);
    std::optional<RankSeconds> &most = slowest[pipeline.placeOf(number)];
    if (seconds.total() > 0 && (!most || seconds.total() > most->total()))
      most = std::move(seconds);
  }
  StageProfile profile;
  for (size_t place = 0; place < slowest.size(); ++place) {
    if (!slowest[place])
      throw Error(
          ExitCode::BadInput,
          fmt::format("{}: it has no commands of a forward or backward pass of rank {}, which is number {} along "
                      "the pipeline; trace some training steps, as in dtc run PROGRAM --trace 3-5",
                      path, static_cast<int64_t>(place) * pipeline.stride, place));
    profile.layers.push_back(std::move(slowest[place]->layers));
    profile.outside.push_back(slowest[place]->outside);
  }
  return profile;
}

StageProfile readStageProfile(const std::string &folder) {
  RunFolder run = RunFolder::read(folder);
  if (run.trace.empty())
    throw Error(ExitCode::BadInput,
                fmt::format("'{}': the run has no {}; trace some of its steps, as in dtc run PROGRAM --trace 3-5",
                            folder, RunFiles::Trace));
  if (!run.manifest)
    throw Error(ExitCode::BadInput,
                fmt::format("'{}': {} is not there or cannot be read, so that nobody knows what was measured; run the "
                            "program again",
                            folder, RunFiles::Manifest));
  return stageProfileOf(RunTrace::parse(MappedFile(run.trace).text(), run.trace), *run.manifest, run.trace);
}

} // namespace dtc
