// Asks the planner, and remembers.
#include "passes/pipelines/RecomputeTrials.h"

#include "passes/schedule/ArenaLayout.h"

#include <algorithm>

using namespace mlir;

namespace dtc {

using Kind = abi::Recompute::Kind;

uint64_t RecomputeTrial::most() const { return *std::ranges::max_element(bytes); }
double RecomputeTrial::slowest() const { return *std::ranges::max_element(seconds); }

RecomputeTrials::RecomputeTrials(Planner &planner, const Choices &given, const timing::Device &device,
                                 const timing::Layout *layout)
    : planner(planner), given(given), device(device), seconds(this->device, layout, planner.mesh()),
      layersOfModel(planner.layers(given)) {
  for (const PlannedLayer &layer : layersOfModel)
    layersOfStages.resize(std::max<size_t>(layersOfStages.size(), layer.stage + 1));
  for (const PlannedLayer &layer : layersOfModel)
    ++layersOfStages[layer.stage];
}

/// A class's layers, as runs of layers that are treated alike. Of what is in no layer the first way counts.
std::vector<RecomputeRule> RecomputeTrials::rulesOf(const Treatment &treatment) const {
  bool isNone = llvm::all_of(treatment, [](const abi::Recompute &how) { return how.kind == Kind::None; });
  std::vector<RecomputeRule> rules{{"*", {{abi::Recompute{isNone ? Kind::None : Kind::Cheap}}}, ""}};
  if (isNone)
    return rules;
  for (auto [layer, how] : llvm::zip_equal(layersOfModel, treatment)) {
    std::string name = layer.list + ".*";
    auto rule = llvm::find_if(rules, [&](const RecomputeRule &each) { return each.layers == name; });
    if (rule == rules.end())
      rule = rules.insert(rules.end(), {name, {}, ""});
    if (rule->runs.empty() || rule->runs.back().how != how)
      rule->runs.push_back({how, 0});
    ++rule->runs.back().layers;
  }
  for (RecomputeRule &rule : rules)
    if (rule.runs.size() == 1)
      rule.runs.front().layers = 0;
  return rules;
}

FailureOr<const RecomputeTrial *> RecomputeTrials::attempt(const Treatment &treatment) {
  for (const std::unique_ptr<RecomputeTrial> &known : trials)
    if (known->treatment == treatment)
      return known.get();
  Choices choices = given;
  choices.recompute = rulesOf(treatment);
  FailureOr<Plan> plan = planner.plan(choices);
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
  for (const abi::Recompute &how : treatment) {
    std::string name = abi::nameOf(how);
    auto found = llvm::find_if(counts, [&](const auto &each) { return each.first == name; });
    if (found == counts.end())
      found = counts.insert(counts.end(), {name, 0});
    ++found->second;
  }
  std::string text;
  for (const auto &[name, count] : counts)
    text += text.empty() ? std::to_string(count) + " of " + std::to_string(treatment.size()) + " layers " + name
                         : ", " + std::to_string(count) + " " + name;
  return text;
}

} // namespace dtc
