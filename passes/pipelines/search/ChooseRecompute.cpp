// Tries what may be recomputed.
#include "passes/pipelines/search/ChooseRecompute.h"

#include "passes/pipelines/search/RecomputeWays.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace dtc {

namespace {

using Kind = abi::Recompute::Kind;

/// The most mixes of either kind that are planned for each stage.
constexpr size_t mostMixes = 40;

class Search {
public:
  Search(Planner &planner, const Choices &given, uint64_t limit, const timing::Device &device,
         const timing::Layout *layout)
      : planner(planner), given(given), limit(limit), trials(planner, given, device, layout) {}

  FailureOr<ChosenRecompute> run();

private:
  LogicalResult planMixes(std::vector<Way> ClassWays::*figures);
  std::vector<Treatment> mixesOf(size_t stage, std::vector<Way> ClassWays::*figures) const;
  Treatment mix(const LayerTreatment &tight, const LayerTreatment &loose, const std::vector<int64_t> &counts) const;
  LogicalResult planGroups(int64_t group);
  std::optional<Treatment> fastest() const;
  FailureOr<const RecomputeTrial *> least();
  FailureOr<ChosenRecompute> refuse();

  Planner &planner;
  const Choices &given;
  uint64_t limit;
  RecomputeTrials trials;
  const RecomputeTrial *nothing = nullptr;
  std::map<std::string, ClassWays> classes; ///< by the list of layers
};

/// The best mixes by the bytes of `figures`, those that take most first. In each mix, the layers of a class that keep
/// least are the first in the stage; what it says about other stages does not count.
std::vector<Treatment> Search::mixesOf(size_t stage, std::vector<Way> ClassWays::*figures) const {
  std::vector<size_t> own; // layers
  std::vector<std::vector<Way>> items;
  for (auto [number, layer] : llvm::enumerate(trials.layers()))
    if (layer.stage == stage) {
      own.push_back(number);
      items.push_back(classes.at(layer.list).*figures);
    }
  std::vector<Treatment> treatments;
  for (const Mix &mix : bestMixes(items, mostMixes)) {
    std::map<std::string, std::vector<size_t>> waysOf; // for each class, the tightest last
    for (auto [layer, way] : llvm::zip_equal(own, mix.ways))
      waysOf[trials.layers()[layer].list].push_back(way);
    for (auto &[list, ways] : waysOf)
      llvm::sort(ways, [&kept = classes.at(list).ways](size_t a, size_t b) {
        return std::tie(kept[b].bytes, a) < std::tie(kept[a].bytes, b);
      });
    Treatment &treatment = treatments.emplace_back(trials.layers().size());
    for (size_t layer : own) {
      const std::string &list = trials.layers()[layer].list;
      treatment[layer] = classes.at(list).hows[waysOf[list].back()];
      waysOf[list].pop_back();
    }
  }
  return treatments;
}

/// Plans all stages at a time: what one does does not change another's memory.
LogicalResult Search::planMixes(std::vector<Way> ClassWays::*figures) {
  std::vector<std::vector<Treatment>> ofStages;
  size_t most = 0;
  for (size_t stage = 0; stage < trials.perStage().size(); ++stage)
    most = std::max(most, ofStages.emplace_back(mixesOf(stage, figures)).size());
  for (size_t number = 0; number < most; ++number) {
    Treatment treatment;
    for (auto [layer, each] : llvm::enumerate(trials.layers())) {
      const std::vector<Treatment> &mixes = ofStages[each.stage];
      treatment.push_back(mixes[std::min(number, mixes.size() - 1)][layer]);
    }
    if (failed(trials.attempt(treatment)))
      return failure();
  }
  return success();
}

/// Treats the first `counts[stage]` layers of each stage in the tight way, all others in the loose way.
Treatment Search::mix(const LayerTreatment &tight, const LayerTreatment &loose,
                      const std::vector<int64_t> &counts) const {
  Treatment treatment;
  std::vector<int64_t> met(counts.size());
  for (const PlannedLayer &layer : trials.layers())
    treatment.push_back(met[layer.stage]++ < counts[layer.stage] ? tight : loose);
  return treatment;
}

/// Finds for each stage the fewest layers in groups with which it fits; the others are single. With more room,
/// bisection ends with as many or fewer, whatever memory does in between.
LogicalResult Search::planGroups(int64_t group) {
  const LayerTreatment tight{{Kind::Full, group}}, loose{{Kind::Full}};
  std::vector<int64_t> enough = trials.perStage(), fails(enough.size(), -1);
  auto isDone = [&](size_t stage) { return enough[stage] - fails[stage] <= 1; };
  auto stages = llvm::seq<size_t>(0, enough.size());
  for (std::vector<int64_t> next = enough;;) {
    FailureOr<const RecomputeTrial *> trial = trials.attempt(mix(tight, loose, next));
    if (failed(trial))
      return failure();
    for (size_t stage : stages) {
      bool fits = (*trial)->bytes[stage] <= limit;
      if (next[stage] < enough[stage])
        (fits ? enough : fails)[stage] = next[stage];
      else if (!fits)
        fails[stage] = enough[stage] - 1;
    }
    if (llvm::all_of(stages, isDone))
      return success();
    next = enough;
    for (size_t stage : stages)
      if (!isDone(stage))
        next[stage] = std::midpoint(fails[stage], enough[stage]);
  }
}

/// For each stage the treatment that takes the least time there among those that fit; nothing if none does.
std::optional<Treatment> Search::fastest() const {
  Treatment best(trials.layers().size());
  for (size_t stage = 0; stage < nothing->bytes.size(); ++stage) {
    const RecomputeTrial *found = nullptr;
    for (const std::unique_ptr<RecomputeTrial> &trial : trials.all())
      if (trial->bytes[stage] <= limit && (!found || trial->seconds[stage] < found->seconds[stage]))
        found = trial.get();
    if (!found)
      return std::nullopt;
    for (auto [layer, each] : llvm::enumerate(trials.layers()))
      if (each.stage == stage)
        best[layer] = found->treatment[layer];
  }
  return best;
}

/// For each stage the treatment that takes the least memory there.
FailureOr<const RecomputeTrial *> Search::least() {
  Treatment treatment(trials.layers().size());
  for (auto [layer, each] : llvm::enumerate(trials.layers()))
    treatment[layer] = (*std::ranges::min_element(trials.all(), {}, [&](const auto &trial) {
                         return trial->bytes[each.stage];
                       }))->treatment[layer];
  return trials.attempt(treatment);
}

FailureOr<ChosenRecompute> Search::refuse() {
  FailureOr<const RecomputeTrial *> trial = least();
  if (failed(trial))
    return failure();
  return planner.emitError() << "a rank needs at least " << (*trial)->most() << " bytes, with "
                             << describe((*trial)->treatment) << ", " << (*trial)->most() - limit
                             << " more than the limit of " << limit
                             << "; more accumulation makes micro-batches smaller, and with more ranks each holds less: "
                                "of the layers with tp, of parameters and optimizer state with zero3";
}

FailureOr<ChosenRecompute> Search::run() {
  Treatment none(trials.layers().size(), LayerTreatment{{Kind::None}}), most = none;
  for (auto [layer, own] : llvm::zip_equal(trials.layers(), most))
    own.sharesGathers = trials.mayShareGathers(layer.list);
  FailureOr<const RecomputeTrial *> untreated = trials.attempt(none), loosest = trials.attempt(most);
  if (failed(untreated) || failed(loosest))
    return failure();
  nothing = *untreated;
  if ((*loosest)->most() > limit) {
    FailureOr<std::map<std::string, ClassWays>> ways = findWays(planner, given, trials, *nothing);
    if (failed(ways))
      return failure();
    classes = std::move(*ways);
    if (failed(planMixes(&ClassWays::ways)) || failed(planMixes(&ClassWays::atPeak)))
      return failure();
  }
  int64_t longest = trials.layers().empty() ? 0 : *std::ranges::max_element(trials.perStage());
  // Groups of about the root of the number of layers keep least; none is larger than half a stage.
  for (int64_t group = 2; 2 * group <= longest && !fastest(); group = group < 4 ? group + 1 : group * 3 / 2)
    if (failed(planGroups(group)))
      return failure();
  std::optional<Treatment> found = fastest();
  if (!found)
    return refuse();
  FailureOr<const RecomputeTrial *> best = trials.attempt(*found);
  if (failed(best))
    return failure();
  return ChosenRecompute{trials.choicesOf(*found), (*best)->most(),  (*best)->flops,    nothing->flops,
                         (*best)->slowest(),       describe(*found), nothing->slowest()};
}

} // namespace

FailureOr<ChosenRecompute> chooseRecompute(Planner &planner, const Choices &given, uint64_t limit,
                                           const timing::Device &device, const timing::Layout *layout) {
  return Search(planner, given, limit, device, layout).run();
}

} // namespace dtc
