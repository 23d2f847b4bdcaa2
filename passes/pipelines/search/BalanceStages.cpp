// Costs of layers, from a plan; then the best cut that fits.
#include "passes/pipelines/search/BalanceStages.h"

#include "passes/pipelines/search/CommandSeconds.h"
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

/// How often each function runs for a micro-batch, on average.
std::vector<double> runsOf(const FlatRole &role) {
  int64_t microBatches = 1;
  for (const FlatEntry &entry : role.step)
    microBatches = std::max(microBatches, entry.microBatch + 1);
  std::vector<double> runs(role.functions.size());
  for (const FlatEntry &entry : role.step)
    runs[static_cast<size_t>(entry.function)] += 1 / static_cast<double>(microBatches);
  return runs;
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
    for (auto [function, runs] : llvm::zip_equal(role.functions, runsOf(role)))
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

/// What the memory of ranks, devices and nodes lacks for a plan.
struct Lack {
  double most = 0;      ///< bytes
  std::set<size_t> roles; ///< for which there is too little
};

class Memory {
public:
  Memory(const abi::Mesh &mesh, uint64_t limit, const timing::Layout &layout)
      : mesh(mesh), limit(static_cast<double>(limit)), layout(layout) {}

  Lack lackOf(const Plan &plan) const {
    Lack lack;
    auto need = [&](double bytes, double has, const std::set<size_t> &roles) {
      if (has == 0 || bytes <= has)
        return;
      lack.most = std::max(lack.most, bytes - has);
      lack.roles.insert(roles.begin(), roles.end());
    };
    struct Node {
      double bytes = 0;
      std::set<size_t> roles;
    };
    std::map<int64_t, Node> nodes;
    for (auto [rank, role] : llvm::enumerate(rolesOfRanks(mesh, plan.roles.size()))) {
      auto number = static_cast<size_t>(role);
      auto bytes = static_cast<double>(plan.roles[number].arena.bytes);
      const timing::Device &device = layout.deviceOf(static_cast<int64_t>(rank));
      need(bytes, limit, {number});
      need(bytes, static_cast<double>(device.memory_bytes()), {number});
      if (device.memory_bytes() > 0)
        continue;
      Node &node = nodes[layout.nodeOf(static_cast<int64_t>(rank))];
      node.bytes += bytes;
      node.roles.insert(number);
    }
    for (const auto &[number, node] : nodes)
      need(node.bytes, nodeMemory(number), node.roles);
    return lack;
  }

private:
  /// 0: the file does not say.
  double nodeMemory(int64_t node) const {
    for (const timing::Nodes &nodes : layout.cluster().nodes()) {
      if (node < nodes.count())
        return static_cast<double>(nodes.memory_bytes());
      node -= nodes.count();
    }
    return 0;
  }

  const abi::Mesh mesh;
  double limit;
  const timing::Layout &layout;
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

  void add(const LayerCut &cut, const Lack &lack) { refused.push_back({layersOfRanks(cut, rankOf), lack.roles}); }

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

/// What is recomputed, where that is open.
Choices withRecompute(Choices choices, abi::Recompute::Kind kind) {
  if (choices.recompute.empty())
    choices.recompute = {{"*", {{abi::Recompute{kind}}}, ""}};
  return choices;
}

/// The first of the cuts that fits, or the one that lacks least.
FailureOr<LayerCut> firstThatFits(Planner &planner, const Choices &choices, const std::vector<LayerCut> &cuts,
                                  const LayerCut &even, const std::vector<int64_t> &rankOf, const Memory &memory) {
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
    FailureOr<Plan> plan = planner.plan(withCut(choices, cut, even));
    if (failed(plan))
      continue;
    Lack lack = memory.lackOf(*plan);
    if (lack.most == 0)
      return cut;
    refused.add(cut, lack);
    if (!least || lack.most < leastLack) {
      least = &cut;
      leastLack = lack.most;
    }
  }
  return least ? *least : even;
}

/// A change of the cut must save this share of the even one's time.
constexpr double leastGain = 0.001;
/// Cuts among which one that fits is looked for.
constexpr size_t mostCuts = 64;

/// "its head counts as 4 layers": what makes a stage slower than others, if it is not the number of its layers.
std::string reasonOf(const StageCutCosts &costs, size_t rank) {
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
      reason = layers == 0 ? "" : llvm::formatv("its {0} as {1} layer{2}", what, layers, layers == 1 ? "" : "s").str();
    }
  return reason;
}

std::string textOf(const std::vector<int64_t> &layers) {
  return "[" + llvm::join(llvm::map_range(layers, [](int64_t each) { return std::to_string(each); }), ", ") + "]";
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
  std::vector<LayerCut> cuts = bestCuts(*costs, mostCuts);
  auto isEven = [&](const LayerCut &each) { return each.layers == even.layers; };
  if (cuts.front().slowest() >= even.slowest() * (1 - leastGain)) {
    llvm::erase_if(cuts, isEven);
    cuts.insert(cuts.begin(), even);
  } else if (llvm::none_of(cuts, isEven)) {
    cuts.push_back(even);
  }
  Choices leanest = withRecompute(given, abi::Recompute::Kind::Full);
  FailureOr<LayerCut> chosen =
      firstThatFits(planner, leanest, cuts, even, cut->rankOf, Memory(planner.mesh(), limit, layout));
  if (failed(chosen))
    return failure();
  bool isForMemory = chosen->layers != cuts.front().layers;
  return std::optional(BalancedStages{withCut(given, *chosen, even), *chosen, even, isForMemory});
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
  auto rank = std::ranges::max_element(own.seconds) - own.seconds.begin();
  std::vector<std::string> stages;
  for (auto [stage, ofRank] : llvm::enumerate(cut->rankOf))
    if (ofRank == rank)
      stages.push_back(std::to_string(stage));
  std::string reason = reasonOf(*costs, static_cast<size_t>(rank));
  return llvm::formatv("{0} {1} {2:f2} times the mean{3}; [stages] layers = {4} would take {5:f2}",
                       (stages.size() == 1 ? "stage " : "stages ") + llvm::join(stages, " and "),
                       stages.size() == 1 ? "takes" : "take", own.slowest() / own.mean(),
                       (reason.empty() ? "" : ": ") + reason, textOf(best.layers), best.slowest() / best.mean())
      .str();
}

} // namespace dtc
