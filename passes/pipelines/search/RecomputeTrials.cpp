// Asks the planner, and remembers.
#include "passes/pipelines/search/RecomputeTrials.h"

#include "passes/schedule/memory/ArenaLayout.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>

using namespace mlir;

namespace dtc {

using Kind = abi::Recompute::Kind;

uint64_t RecomputeTrial::most() const { return *std::ranges::max_element(bytes); }
double RecomputeTrial::slowest() const { return *std::ranges::max_element(seconds); }

RecomputeTrials::RecomputeTrials(Planner &planner, const Choices &given, const timing::Device &device,
                                 const timing::Layout *layout)
    : planner(planner), given(given), device(device), seconds(this->device, layout, planner.mesh()),
      layersOfModel(planner.layers(given)), gatheringLists(planner.gatheringLists(given)) {
  for (const PlannedLayer &layer : layersOfModel)
    layersOfStages.resize(std::max<size_t>(layersOfStages.size(), layer.stage + 1));
  for (const PlannedLayer &layer : layersOfModel)
    ++layersOfStages[layer.stage];
}

/// A class's layers, as runs of layers that are treated alike. For what is in no layer the first way counts.
Choices RecomputeTrials::choicesOf(const Treatment &treatment) const {
  struct ClassLayers {
    std::vector<abi::Recompute> recompute;
    std::vector<Gathering> gathers;
  };
  llvm::MapVector<StringRef, ClassLayers> classes;
  bool isNone = true;
  for (auto [layer, own] : llvm::zip_equal(layersOfModel, treatment)) {
    isNone &= own.recompute.kind == Kind::None;
    classes[layer.list].recompute.push_back(own.recompute);
    classes[layer.list].gathers.push_back(own.sharesGathers ? Gathering::Shared : Gathering::Again);
  }
  Choices choices = given;
  choices.recompute = {{"*", {{abi::Recompute{isNone ? Kind::None : Kind::Cheap}}}, ""}};
  choices.gathers.clear();
  for (const auto &[list, layers] : classes) {
    std::string pattern = (list + ".*").str();
    if (!isNone)
      choices.recompute.push_back({pattern, runsOfLayers(layers.recompute), ""});
    if (llvm::is_contained(layers.gathers, Gathering::Shared))
      choices.gathers.push_back({pattern, runsOfLayers(layers.gathers), ""});
  }
  llvm::append_range(choices.gathers, given.gathers); // the last that fits counts
  return choices;
}

FailureOr<const RecomputeTrial *> RecomputeTrials::attempt(const Treatment &treatment) {
  for (const std::unique_ptr<RecomputeTrial> &known : trials)
    if (known->treatment == treatment)
      return known.get();
  FailureOr<Plan> plan = planner.plan(choicesOf(treatment));
  if (failed(plan))
    return failure();
  RecomputeTrial &trial = *trials.emplace_back(std::make_unique<RecomputeTrial>());
  trial.treatment = treatment;
  for (const PlannedRole &role : plan->roles) {
    trial.bytes.push_back(role.arena.bytes);
    trial.seconds.push_back(seconds.ofStep(*role.role));
    trial.kept += keptBytes(*role.role);
    for (const auto &[direction, work] : role.work)
      trial.flops += work.flops;
  }
  return &trial;
}

std::string describe(const Treatment &treatment) {
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const LayerTreatment &layer : treatment) {
    std::string name = abi::nameOf(layer.recompute);
    auto found = llvm::find_if(counts, [&](const auto &each) { return each.first == name; });
    if (found == counts.end())
      found = counts.insert(counts.end(), {name, 0});
    ++found->second;
  }
  std::string text;
  for (const auto &[name, count] : counts)
    text += text.empty() ? std::to_string(count) + " of " + std::to_string(treatment.size()) + " layers " + name
                         : ", " + std::to_string(count) + " " + name;
  if (auto shared = llvm::count_if(treatment, [](const LayerTreatment &layer) { return layer.sharesGathers; }))
    text += "; parameters of " + std::to_string(shared) + " gathered once";
  return text;
}

} // namespace dtc
