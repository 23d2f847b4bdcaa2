// Costs of layers, from a plan; then the best cut that fits.
#include "passes/pipelines/search/BalanceStages.h"

#include "passes/pipelines/search/CommandSeconds.h"
#include "passes/pipelines/search/MemoryLack.h"
#include "passes/pipelines/search/PlannedStep.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace mlir;

namespace dtc {

namespace {

using Devices = std::set<int>; ///< kinds, as indices into Cluster.devices

/// What each rank along the pipeline computes on.
std::vector<Devices> devicesOfRanks(const abi::Mesh &mesh, size_t ranks, const timing::Layout *layout) {
  std::vector<Devices> devices(ranks);
  std::vector<int> roles = rolesOfRanks(mesh, ranks);
  for (size_t rank = 0; layout && rank < roles.size(); ++rank)
    devices[static_cast<size_t>(roles[rank])].insert(layout->deviceIndexOf(static_cast<int64_t>(rank)));
  return devices;
}

bool isOfPasses(const FlatCommand &command) {
  return command.direction == abi::FORWARD || command.direction == abi::INPUT_GRADIENT ||
         command.direction == abi::WEIGHT_GRADIENT;
}

/// Adds up what commands take, on devices of one kind after the other.
class CostReader {
public:
  CostReader(Planner &planner, const Choices &choices, const PlannedCut &cut) {
    for (auto [index, layer] : llvm::enumerate(planner.layers(choices)))
      indices[{layer.list, layer.number}] = index;
    layers.resize(indices.size());
    outside.resize(cut.rankOf.size());
  }

  /// Each layer and each stage takes the longest that it takes on any of these kinds.
  void read(const Plan &plan, const std::vector<CommandSeconds> &kinds) {
    for (const CommandSeconds &kind : kinds) {
      std::vector<double> ofLayers(layers.size()), ofStages(outside.size());
      for (const PlannedRole &planned : plan.roles)
        readRole(*planned.role, kind, ofLayers, ofStages);
      for (auto [most, seconds] : llvm::zip_equal(layers, ofLayers))
        most = std::max(most, seconds);
      for (auto [most, seconds] : llvm::zip_equal(outside, ofStages))
        most = std::max(most, seconds);
    }
  }

  std::vector<double> layers, outside;

private:
  void readRole(const FlatRole &role, const CommandSeconds &kind, std::vector<double> &ofLayers,
                std::vector<double> &ofStages) const {
    for (auto [function, runs] : llvm::zip_equal(role.functions, runsOfFunctions(role)))
      for (const FlatCommand &command : function.commands) {
        if (runs == 0 || !isOfPasses(command))
          continue;
        double seconds = runs * kind.ofCommand(role, command);
        if (auto layer = indices.find({command.layers, command.layer}); layer != indices.end())
          ofLayers[layer->second] += seconds;
        else
          ofStages[static_cast<size_t>(function.stage)] += seconds;
      }
  }

  std::map<std::pair<std::string, int64_t>, size_t> indices; ///< of layers by list and number
};

/// Layers of each rank along the pipeline.
std::vector<int64_t> layersOfRanks(const LayerCut &cut, const std::vector<int64_t> &rankOf) {
  std::vector<int64_t> layers(cut.seconds.size());
  for (auto [stage, count] : llvm::enumerate(cut.layers))
    layers[static_cast<size_t>(rankOf[stage])] += count;
  return layers;
}

/// Cuts that did not fit, so that no other is tried that has as many layers where there is no room.
class Refused {
public:
  explicit Refused(const std::vector<int64_t> &rankOf) : rankOf(rankOf) {}

  void add(const LayerCut &cut, const MemoryLack &lack) { refused.push_back({layersOfRanks(cut, rankOf), lack.roles}); }

  bool isHopeless(const LayerCut &cut) const {
    std::vector<int64_t> layers = layersOfRanks(cut, rankOf);
    return llvm::any_of(refused, [&](const auto &each) {
      return llvm::all_of(each.second, [&](size_t rank) { return layers[rank] >= each.first[rank]; });
    });
  }

private:
  const std::vector<int64_t> &rankOf;
  std::vector<std::pair<std::vector<int64_t>, std::set<size_t>>> refused;
};

/// The choices with a cut; the even one needs none.
Choices withCut(Choices choices, const LayerCut &cut, const LayerCut &even) {
  choices.layers.clear();
  if (cut.layers != even.layers)
    choices.layers = cut.layers;
  return choices;
}

/// The choices with a cut, whatever the strategy says.
Choices withLayers(Choices choices, const LayerCut &cut) {
  choices.layers = cut.layers;
  return choices;
}

/// The rank of each layer.
std::vector<int64_t> ownersByCut(const PlannedCut &cut) {
  std::vector<int64_t> owners;
  for (auto [stage, layers] : llvm::enumerate(cut.layers))
    owners.insert(owners.end(), static_cast<size_t>(layers), cut.rankOf[stage]);
  return owners;
}

/// What is recomputed, where that is open.
Choices withRecompute(Choices choices, abi::Recompute::Kind kind) {
  if (choices.recompute.empty())
    choices.recompute = {{"*", {{abi::Recompute{kind}}}, ""}};
  return choices;
}

using ChoicesOfCut = llvm::function_ref<Choices(const LayerCut &)>;

/// The first of the cuts that fits, or the one that lacks least; `otherwise` where none can be planned.
LayerCut firstThatFits(Planner &planner, ChoicesOfCut choicesOf, const std::vector<LayerCut> &cuts,
                       const LayerCut &otherwise, const std::vector<int64_t> &rankOf, uint64_t limit,
                       const timing::Layout *layout) {
  ScopedDiagnosticHandler quiet(planner.context(), [](Diagnostic &) { return success(); });
  Refused refused(rankOf);
  const LayerCut *least = nullptr;
  double leastLack = 0;
  size_t plans = 0;
  for (const LayerCut &cut : cuts) {
    if (plans == mostCutPlans)
      break;
    if (refused.isHopeless(cut))
      continue;
    ++plans;
    FailureOr<Plan> plan = planner.plan(choicesOf(cut));
    if (failed(plan))
      continue;
    MemoryLack lack = findMemoryLack(*plan, planner.mesh(), limit, layout);
    if (lack.bytes == 0)
      return cut;
    refused.add(cut, lack);
    if (!least || lack.bytes < leastLack) {
      least = &cut;
      leastLack = lack.bytes;
    }
  }
  return least ? *least : otherwise;
}

/// A change of the cut must save this share of the time that the present one takes.
constexpr double leastSaving = 0.001;
/// Cuts among which one that fits is looked for.
constexpr size_t mostCuts = 64;

/// The best cuts, the best first, with the present one in any case: as the first where none is better by enough.
std::vector<LayerCut> candidates(const StageCutCosts &costs, const LayerCut &present) {
  std::vector<LayerCut> cuts = bestCuts(costs, mostCuts);
  auto isPresent = [&](const LayerCut &each) { return each.layers == present.layers; };
  if (cuts.front().slowest() >= present.slowest() * (1 - leastSaving)) {
    llvm::erase_if(cuts, isPresent);
    cuts.insert(cuts.begin(), present);
  } else if (llvm::none_of(cuts, isPresent)) {
    cuts.push_back(present);
  }
  return cuts;
}

/// "its head counts as 4 layers": what makes a stage slower than others, if it is not the number of its layers.
std::string reasonOf(const StageCutCosts &costs, size_t rank, const char *whose) {
  std::string reason;
  double most = 0, sum = 0;
  for (double seconds : costs.layers[rank])
    sum += seconds;
  double layer = sum / static_cast<double>(costs.layers[rank].size());
  size_t last = costs.rankOf.size() - 1;
  for (auto [stage, what] : {std::pair(last, "head counts"), {size_t(0), "embeddings count"}})
    if (double seconds = costs.outside[stage]; costs.rankOf[stage] == static_cast<int64_t>(rank) && seconds > most) {
      auto layers = layer > 0 ? std::llround(seconds / layer) : 0;
      most = seconds;
      reason.clear();
      if (layers > 0)
        reason = llvm::formatv("{0} {1} as {2} layer{3}", whose, what, layers, layers == 1 ? "" : "s").str();
    }
  return reason;
}

std::string layersText(const std::vector<int64_t> &layers) {
  return "[" + llvm::join(llvm::map_range(layers, [](int64_t each) { return std::to_string(each); }), ", ") + "]";
}

/// "stage 3", "stages 1 and 2": those of a rank along the pipeline.
std::string stagesText(const std::vector<int64_t> &rankOf, size_t rank) {
  std::vector<std::string> stages;
  for (auto [stage, ofRank] : llvm::enumerate(rankOf))
    if (ofRank == static_cast<int64_t>(rank))
      stages.push_back(std::to_string(stage));
  return (stages.size() == 1 ? "stage " : "stages ") + llvm::join(stages, " and ");
}

/// "stage 3 takes 1.75 times the mean: its head counts as 4 layers": the slowest rank of a cut, and why.
std::string unevenText(const StageCutCosts &costs, const LayerCut &cut) {
  auto rank = static_cast<size_t>(std::ranges::max_element(cut.seconds) - cut.seconds.begin());
  bool isOne = llvm::count(costs.rankOf, static_cast<int64_t>(rank)) == 1;
  std::string reason = reasonOf(costs, rank, isOne ? "its" : "their");
  return llvm::formatv("{0} {1} {2:f2} times the mean{3}", stagesText(costs.rankOf, rank), isOne ? "takes" : "take",
                       cut.slowest() / cut.mean(), (reason.empty() ? "" : ": ") + reason)
      .str();
}

/// "; [stages] layers = [4, 4, 3, 1] would take 1.25".
std::string instead(const LayerCut &cut) {
  return llvm::formatv("; [stages] layers = {0} would take {1:f2}", layersText(cut.layers), cut.slowest() / cut.mean())
      .str();
}

} // namespace

FailureOr<StageCutCosts> stageCutCosts(Planner &planner, const Choices &choices, const PlannedCut &cut,
                                       const timing::Device &assumed, const timing::Layout *layout) {
  FailureOr<Plan> plan = planner.plan(withRecompute(choices, abi::Recompute::Kind::Cheap));
  if (failed(plan))
    return failure();
  abi::Mesh mesh = planner.mesh();
  StageCutCosts costs{cut.rankOf, std::vector<double>(cut.rankOf.size()), {}};
  std::map<Devices, CostReader> known;
  for (auto [rank, devices] : llvm::enumerate(devicesOfRanks(mesh, plan->roles.size(), layout))) {
    auto [found, isNew] = known.try_emplace(devices, planner, choices, cut);
    CostReader &read = found->second;
    if (isNew) {
      std::vector<CommandSeconds> kinds;
      for (int device : devices)
        kinds.emplace_back(layout->cluster().devices(device), layout, mesh);
      if (devices.empty())
        kinds.emplace_back(assumed, layout, mesh);
      read.read(*plan, kinds);
    }
    costs.layers.push_back(read.layers);
    for (auto [stage, ofRank] : llvm::enumerate(cut.rankOf))
      if (ofRank == static_cast<int64_t>(rank))
        costs.outside[stage] = read.outside[stage];
  }
  return costs;
}

FailureOr<std::optional<BalancedStages>> balanceStages(Planner &planner, const Choices &given, uint64_t limit,
                                                       const timing::Layout &layout) {
  if (!given.layers.empty())
    return std::optional<BalancedStages>();
  FailureOr<PlannedCut> cut = planner.cut(given);
  if (failed(cut))
    return failure();
  size_t layers = planner.layers(given).size();
  if (cut->isSaid || cut->rankOf.size() == 1 || layers <= cut->rankOf.size())
    return std::optional<BalancedStages>();
  FailureOr<StageCutCosts> costs = stageCutCosts(planner, given, *cut, layout.deviceOf(0), &layout);
  if (failed(costs))
    return failure();
  LayerCut even = costOfCut(*costs, cut->layers);
  std::vector<LayerCut> cuts = candidates(*costs, even);
  Choices leanest = withRecompute(given, abi::Recompute::Kind::Full);
  auto choicesOf = [&](const LayerCut &each) { return withCut(leanest, each, even); };
  LayerCut chosen = firstThatFits(planner, choicesOf, cuts, even, cut->rankOf, limit, &layout);
  bool isForMemory = chosen.layers != cuts.front().layers;
  return std::optional(BalancedStages{withCut(given, chosen, even), chosen, even, isForMemory});
}

FailureOr<ProfiledStages> balanceByProfile(Planner &planner, const Choices &given, const StageProfile &profile,
                                           uint64_t limit, const timing::Device &assumed,
                                           const timing::Layout *layout) {
  FailureOr<PlannedCut> cut = planner.cut(given);
  if (failed(cut))
    return failure();
  std::vector<std::string> names;
  for (const PlannedLayer &layer : planner.layers(given))
    names.push_back(layer.list + "." + std::to_string(layer.number));
  auto ranks = static_cast<size_t>(*std::ranges::max_element(cut->rankOf) + 1);
  if (std::string problem = findMismatch(profile, names, ranks); !problem.empty()) {
    planner.emitError() << problem;
    return failure();
  }
  FailureOr<StageCutCosts> predicted = stageCutCosts(planner, given, *cut, assumed, layout);
  if (failed(predicted))
    return failure();
  StageCutCosts costs = measuredCosts(profile, names, *predicted);
  std::vector<int64_t> owners = ownersOf(profile, names), ran = cutOfOwners(owners, cut->rankOf);
  ProfiledStages found;
  found.isOfThisCut = owners == ownersByCut(*cut);
  found.cut.even = costOfCut(costs, found.isOfThisCut || ran.empty() ? cut->layers : ran);
  std::vector<LayerCut> cuts = candidates(costs, found.cut.even);
  Choices leanest = withRecompute(given, abi::Recompute::Kind::Full);
  found.cut.chosen = firstThatFits(
      planner, [&](const LayerCut &each) { return withLayers(leanest, each); }, cuts, found.cut.even, cut->rankOf,
      limit, layout);
  found.cut.choices = withLayers(given, found.cut.chosen);
  found.cut.isForMemory = found.cut.chosen.layers != cuts.front().layers;
  found.seconds = profile.ofRanks();
  for (size_t rank = 0; rank < ranks; ++rank)
    found.stages.push_back(stagesText(cut->rankOf, rank));
  found.uneven = unevenText(costs, found.cut.even);
  if (found.cut.chosen.layers != found.cut.even.layers)
    found.uneven += instead(found.cut.chosen);
  return found;
}

FailureOr<std::string> findUnevenStages(Planner &planner, const Choices &given, const timing::Device &assumed,
                                        const timing::Layout *layout) {
  constexpr double tolerated = 1.1;
  FailureOr<PlannedCut> cut = planner.cut(given);
  if (failed(cut))
    return failure();
  if (cut->rankOf.size() == 1 || cut->layers.empty() || planner.layers(given).size() <= cut->rankOf.size())
    return std::string();
  FailureOr<StageCutCosts> costs = stageCutCosts(planner, given, *cut, assumed, layout);
  if (failed(costs))
    return failure();
  LayerCut own = costOfCut(*costs, cut->layers), best = bestCuts(*costs, 1).front();
  if (own.slowest() <= tolerated * best.slowest())
    return std::string();
  return unevenText(*costs, own) + instead(best);
}

} // namespace dtc
