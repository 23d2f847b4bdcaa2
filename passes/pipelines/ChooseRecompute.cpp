// Tries what may be computed again.
#include "passes/pipelines/ChooseRecompute.h"

#include "dialect/IR/Names.h"
#include "passes/schedule/ArenaLayout.h"
#include "timing/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

namespace {

using Kind = abi::Recompute::Kind;

/// How each layer of the model is treated, in their order.
using Treatment = std::vector<abi::Recompute>;

/// Kernels one after the other, and what is sent as if it were written to memory and read: only differences count.
double secondsOf(const PlannedRole &role, const timing::Device &device) {
  std::vector<int64_t> times(role.role->functions.size());
  for (const FlatEntry &entry : role.role->step)
    ++times[entry.function];
  double seconds = 0;
  for (auto [function, count] : llvm::zip_equal(role.role->functions, times))
    for (const FlatCommand &command : function.commands) {
      auto runs = static_cast<double>(count);
      if (command.kind == FlatCommand::Kind::Launch)
        seconds += runs * timing::kernelSeconds(
                              device, {command.work.kind(), command.type, command.work.flops(),
                                       static_cast<double>(command.work.bytes_read() + command.work.bytes_written())});
      else if (command.kind == FlatCommand::Kind::Start)
        seconds += runs * (device.launch_seconds() + 2 * command.sent / device.memory_bandwidth());
    }
  return seconds;
}

struct Trial {
  Treatment treatment;
  std::vector<uint64_t> bytes; ///< of each stage
  double seconds = 0, flops = 0;
  uint64_t most() const { return *std::ranges::max_element(bytes); }
};

class Search {
public:
  Search(Planner &planner, const Choices &given, uint64_t limit, const timing::Device &device)
      : planner(planner), given(given), limit(limit), device(device), layers(planner.layers(given)) {
    for (const PlannedLayer &layer : layers)
      perStage.resize(std::max<size_t>(perStage.size(), layer.stage + 1));
    for (const PlannedLayer &layer : layers)
      ++perStage[layer.stage];
  }

  FailureOr<ChosenRecompute> run();

private:
  /// The first `counts[stage]` layers of each stage in the one way, all others in the other.
  Treatment mix(const abi::Recompute &tight, const abi::Recompute &loose, const std::vector<int64_t> &counts) const;
  FailureOr<const Trial *> attempt(const Treatment &treatment);
  LogicalResult bisect(const abi::Recompute &tight, const abi::Recompute &loose);
  bool fits(const Trial &trial) const { return trial.most() <= limit; }
  void consider(const Trial &trial);
  std::vector<RecomputeRule> rulesOf(const Treatment &treatment) const;
  std::string describe(const Treatment &treatment) const;
  LogicalResult refuse() const;

  Planner &planner;
  const Choices &given;
  uint64_t limit;
  const timing::Device &device;
  std::vector<PlannedLayer> layers;
  std::vector<int64_t> perStage; ///< layers
  std::vector<std::unique_ptr<Trial>> trials;
  const Trial *best = nullptr, *least = nullptr; ///< that fits and takes least time; that takes least memory
};

Treatment Search::mix(const abi::Recompute &tight, const abi::Recompute &loose,
                      const std::vector<int64_t> &counts) const {
  Treatment treatment;
  std::vector<int64_t> met(perStage.size());
  for (const PlannedLayer &layer : layers)
    treatment.push_back(met[layer.stage]++ < counts[layer.stage] ? tight : loose);
  return treatment;
}

/// A class's layers, as runs of layers that are treated alike. Of what is in no layer the first way counts.
std::vector<RecomputeRule> Search::rulesOf(const Treatment &treatment) const {
  bool isNone = llvm::all_of(treatment, [](const abi::Recompute &how) { return how.kind == Kind::None; });
  std::vector<RecomputeRule> rules{{"*", {{abi::Recompute{isNone ? Kind::None : Kind::Cheap}}}, ""}};
  if (isNone)
    return rules;
  for (auto [layer, how] : llvm::zip_equal(layers, treatment)) {
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

FailureOr<const Trial *> Search::attempt(const Treatment &treatment) {
  for (const std::unique_ptr<Trial> &known : trials)
    if (known->treatment == treatment)
      return known.get();
  Choices choices = given;
  choices.recompute = rulesOf(treatment);
  FailureOr<Plan> plan = planner.plan(choices);
  if (failed(plan))
    return failure();
  Trial &trial = *trials.emplace_back(std::make_unique<Trial>());
  trial.treatment = treatment;
  for (const PlannedRole &role : plan->roles) {
    trial.bytes.push_back(role.arena.bytes);
    trial.seconds = std::max(trial.seconds, secondsOf(role, device));
    for (const auto &[direction, work] : role.work)
      trial.flops += work.flops;
  }
  consider(trial);
  return &trial;
}

void Search::consider(const Trial &trial) {
  if (!least || trial.most() < least->most())
    least = &trial;
  if (fits(trial) && (!best || trial.seconds < best->seconds))
    best = &trial;
}

/// All stages at a time: what one does changes nothing of another's memory.
LogicalResult Search::bisect(const abi::Recompute &tight, const abi::Recompute &loose) {
  FailureOr<const Trial *> none = attempt(mix(tight, loose, std::vector<int64_t>(perStage.size())));
  FailureOr<const Trial *> all = attempt(mix(tight, loose, perStage));
  if (failed(none) || failed(all))
    return failure();
  if (!fits(**all) || fits(**none))
    return success();
  std::vector<int64_t> fails(perStage.size(), -1), enough = perStage;
  for (size_t stage = 0; stage < perStage.size(); ++stage)
    ((*none)->bytes[stage] <= limit ? enough : fails)[stage] = 0;
  auto isDone = [&](size_t stage) { return enough[stage] - fails[stage] <= 1; };
  auto stages = llvm::seq<size_t>(0, perStage.size());
  while (!llvm::all_of(stages, isDone)) {
    std::vector<int64_t> middle = enough;
    for (size_t stage : stages)
      if (!isDone(stage))
        middle[stage] = std::midpoint(fails[stage], enough[stage]);
    FailureOr<const Trial *> trial = attempt(mix(tight, loose, middle));
    if (failed(trial))
      return failure();
    for (size_t stage : stages)
      ((*trial)->bytes[stage] <= limit ? enough : fails)[stage] = middle[stage];
  }
  return success(succeeded(attempt(mix(tight, loose, enough))));
}

/// "5 of 12 layers full, 7 cheap", in the order of the model.
std::string Search::describe(const Treatment &treatment) const {
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

LogicalResult Search::refuse() const {
  return planner.emitError()
         << "a rank needs at least " << least->most() << " bytes, with " << describe(least->treatment) << ", "
         << least->most() - limit << " more than the limit of " << limit
         << "; more accumulation makes micro-batches smaller, and more ranks hold less each: of the layers with tp, "
            "of parameters and optimizer state with zero3";
}

FailureOr<ChosenRecompute> Search::run() {
  const abi::Recompute none{Kind::None}, cheap{Kind::Cheap}, selective{Kind::Selective}, full{Kind::Full};
  std::vector<std::pair<abi::Recompute, abi::Recompute>> pairs{
      {cheap, none}, {selective, cheap}, {full, none}, {full, cheap}, {full, selective}};
  int64_t longest = layers.empty() ? 0 : *std::ranges::max_element(perStage);
  // About the root of their number keeps least; groups are as large as half of a stage.
  for (int64_t group = 2; 2 * group <= longest; group = group < 4 ? group + 1 : group * 3 / 2)
    pairs.push_back({abi::Recompute{Kind::Full, group}, full});
  FailureOr<const Trial *> nothing = attempt(Treatment(layers.size(), none));
  if (failed(nothing))
    return failure();
  for (const auto &[tight, loose] : pairs)
    if (!fits(**nothing) && failed(bisect(tight, loose)))
      return failure();
  if (!best)
    return refuse();
  return ChosenRecompute{rulesOf(best->treatment), best->most(),  best->flops,
                         (*nothing)->flops,        best->seconds, describe(best->treatment)};
}

} // namespace

FailureOr<ChosenRecompute> chooseRecompute(Planner &planner, const Choices &given, uint64_t limit,
                                           const timing::Device &device) {
  return Search(planner, given, limit, device).run();
}

} // namespace dtc
