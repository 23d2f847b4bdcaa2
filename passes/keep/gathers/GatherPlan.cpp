// How each gather of a function is treated.
#include "passes/keep/gathers/GatherPlan.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "passes/keep/recompute/RecomputePlan.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

FailureOr<GatherPlan> GatherPlan::of(func::FuncOp function, ArrayRef<std::string> rules) {
  GatherPlan plan;
  for (const std::string &rule : rules)
    if (!plan.rules.read(rule, parseGatherRuns))
      return function.emitError("'")
             << rule << "' is not PATTERN=HOW, where HOW is shared or again, or counts such as 8 again, 4 shared";
  for (const auto &[list, layers] : layersOf(function))
    for (auto [number, layer] : llvm::enumerate(layers))
      plan.places[layer.first] = {static_cast<int64_t>(number), static_cast<int64_t>(layers.size())};
  return plan;
}

std::optional<Gathering> GatherPlan::howOf(const GatheredState &gather) const {
  std::optional<std::vector<GatherRun>> runs = rules.of(portOf(gather.stored).getName().getValue());
  if (!runs)
    return std::nullopt;
  LayerAttr layer = marksOf(gather.steps.front()).layer;
  auto place = layer ? places.find(layer) : places.end();
  return place == places.end() ? runs->front().how : howOfLayer(*runs, place->second.layer, place->second.count);
}

} // namespace dtc
