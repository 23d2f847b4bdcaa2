// How each layer of a function is treated.
#include "passes/keep/recompute/RecomputePlan.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "passes/analysis/Stages.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

using Kind = abi::Recompute::Kind;

llvm::MapVector<StringAttr, ClassLayers> layersOf(func::FuncOp function) {
  llvm::SetVector<LayerAttr> layers;
  for (Operation &op : function.front())
    if (LayerAttr layer = marksOf(&op).layer)
      layers.insert(layer);
  SmallVector<int64_t> stageOf =
      stagesOfLayers(function->getParentOfType<ModuleOp>(), static_cast<int64_t>(layers.size()));
  llvm::MapVector<StringAttr, ClassLayers> classes;
  for (auto [index, layer] : llvm::enumerate(layers))
    classes[layer.getList()].push_back({layer, stageOf.empty() ? 0 : stageOf[index]});
  return classes;
}

namespace {

struct ParsedRule {
  llvm::GlobPattern pattern;
  std::vector<RecomputeRun> runs;
};

std::optional<ParsedRule> parseRule(StringRef text) {
  auto [pattern, how] = text.split('=');
  auto glob = llvm::GlobPattern::create(pattern);
  std::optional<std::vector<RecomputeRun>> runs = parseRecomputeRuns(how);
  if (!glob)
    llvm::consumeError(glob.takeError());
  if (!glob || !runs)
    return std::nullopt;
  return ParsedRule{std::move(*glob), std::move(*runs)};
}

} // namespace

FailureOr<RecomputePlan> RecomputePlan::of(func::FuncOp function, ArrayRef<std::string> rules) {
  std::vector<ParsedRule> parsed;
  for (const std::string &rule : rules)
    if (std::optional<ParsedRule> each = parseRule(rule))
      parsed.push_back(std::move(*each));
    else
      return function.emitError("'") << rule << "' is not PATTERN=HOW, where HOW is " << abi::recomputeNames
                                     << ", or counts such as 5 full, 7 cheap";
  auto runsOf = [&](StringRef name) {
    for (const ParsedRule &rule : llvm::reverse(parsed))
      if (rule.pattern.match(name))
        return rule.runs;
    return std::vector{RecomputeRun()};
  };
  RecomputePlan plan;
  if (runsOf("").front().how.kind == Kind::None)
    plan.outside = {Kind::None};
  for (const auto &[list, layers] : layersOf(function)) {
    const auto *next = layers.begin();
    std::string name = list.str() + ".*";
    for (const RecomputeRun &run : shareOutRuns(runsOf(name), static_cast<int64_t>(layers.size()))) {
      int64_t place = 0, stage = -1; // a group ends with its stage
      for (int64_t i = 0; i < run.layers; ++i, ++next) {
        place = next->second == stage ? place + 1 : 0;
        stage = next->second;
        plan.add(next->first, run.how, place);
      }
    }
  }
  return plan;
}

void RecomputePlan::add(LayerAttr layer, const abi::Recompute &how, int64_t place) {
  if (place % how.group == 0)
    groups.push_back(how);
  groupOfLayer[layer] = groups.size() - 1;
}

const abi::Recompute &RecomputePlan::howOf(LayerAttr layer) const {
  auto found = layer ? groupOfLayer.find(layer) : groupOfLayer.end();
  return found == groupOfLayer.end() ? outside : groups[found->second];
}

bool RecomputePlan::offloads() const {
  return llvm::any_of(groups, [](const abi::Recompute &how) { return how.kind == Kind::Offload; });
}

std::optional<size_t> RecomputePlan::groupOf(Operation *op) const {
  LayerAttr layer = marksOf(op).layer;
  Kind kind = howOf(layer).kind;
  if (!layer || kind == Kind::None || kind == Kind::Cheap || kind == Kind::Offload)
    return std::nullopt;
  return groupOfLayer.lookup(layer);
}

} // namespace dtc
