// Gets from minimum cuts what to try, and plans what that takes.
#include "passes/pipelines/search/RecomputeWays.h"

#include "passes/pipelines/search/LayerProblem.h"

#include <numeric>

using namespace mlir;

namespace dtc {

using Kind = abi::Recompute::Kind;

/// What a set that recomputes something keeps; what is kept anyway needs no name.
static std::optional<abi::Recompute> recomputeOf(const KeptSet &set, const KeepProblem &problem) {
  abi::Recompute how{Kind::Named};
  for (size_t value : set.kept)
    if (problem.values[value].bytes > 0)
      how.kept.push_back(problem.values[value].name);
  return set.again.empty() || how.kept.empty() ? std::nullopt : std::optional(std::move(how));
}

static LogicalResult addWays(ModuleOp module, const std::string &list, bool sharesGathers,
                             const RecomputeTrials &trials, ClassWays &ways) {
  for (Kind kind : {Kind::None, Kind::Cheap, Kind::Regather, Kind::Selective, Kind::Full})
    ways.hows.push_back({{kind}, sharesGathers});
  FailureOr<KeepProblem> problem = layerProblem(module, list, trials.costs(), sharesGathers);
  if (failed(problem))
    return failure();
  for (const KeptSet &set : keptSets(*problem))
    if (std::optional<abi::Recompute> how = recomputeOf(set, *problem))
      ways.hows.push_back({std::move(*how), sharesGathers});
  return success();
}

template <typename T> static double sumOf(const std::vector<T> &values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), T()));
}

static LogicalResult measure(const std::string &list, const LayerTreatment &how, RecomputeTrials &trials,
                             const RecomputeTrial &nothing, ClassWays &ways) {
  Treatment treatment = nothing.treatment;
  double layers = 0;
  for (auto [layer, own] : llvm::zip_equal(trials.layers(), treatment))
    if (layer.list == list) {
      own = how;
      ++layers;
    }
  FailureOr<const RecomputeTrial *> trial = trials.attempt(treatment);
  if (failed(trial))
    return failure();
  double seconds = (sumOf((*trial)->seconds) - sumOf(nothing.seconds)) / layers;
  double kept = static_cast<double>((*trial)->kept) - static_cast<double>(nothing.kept);
  ways.ways.push_back({kept / layers, seconds});
  ways.atPeak.push_back({(sumOf((*trial)->bytes) - sumOf(nothing.bytes)) / layers, seconds});
  return success();
}

FailureOr<std::map<std::string, ClassWays>> findWays(Planner &planner, const Choices &given, RecomputeTrials &trials,
                                                     const RecomputeTrial &nothing) {
  FailureOr<OwningOpRef<ModuleOp>> module = planner.beforeRecompute(given);
  if (failed(module))
    return failure();
  std::map<std::string, ClassWays> classes;
  for (const PlannedLayer &layer : trials.layers())
    classes[layer.list];
  for (auto &[list, own] : classes) {
    if (failed(addWays(**module, list, false, trials, own)) ||
        (trials.mayShareGathers(list) && failed(addWays(**module, list, true, trials, own))))
      return failure();
    for (const LayerTreatment &how : own.hows)
      if (failed(measure(list, how, trials, nothing, own)))
        return failure();
  }
  return classes;
}

} // namespace dtc
