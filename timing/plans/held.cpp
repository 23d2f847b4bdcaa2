#include "timing/plans/held.h"

#include "runtime/abi/element_type.h"
#include "timing/plans/work.h"

#include <algorithm>
#include <vector>

namespace dtc::plans {

double stateBytesOfParameter(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  bool addsUp = inputs.microBatches > 1;
  double gradients = 0;
  if (inputs.isFlushed) {
    gradients = (addsUp ? 4 : real(abi::elementType(model.gradients).bytes)) / inputs.gradientShards();
    if (inputs.isSplit[0] && !inputs.isSplit[1] && addsUp && inputs.shards() > 1)
      gradients += 4;
  }
  return (4 / inputs.parameterShards() + model.slotBytes / inputs.slotShards() + gradients) / real(inputs.tp);
}

double stateBytes(const BoundInputs &inputs) {
  return stateBytesOfParameter(inputs) * inputs.model().parameters() / real(inputs.pp);
}

double keptBytesOfLayer(const BoundInputs &inputs) {
  if (!inputs.recompute || inputs.recompute->kind == abi::Recompute::Kind::Offload)
    return 0;
  const ModelFacts &model = inputs.model();
  double tokens = model.tokens() / real(inputs.microBatches) / real(inputs.dp) / real(inputs.cp);
  double split = inputs.splitsSequence ? real(inputs.tp) : 1;
  return tokens * real(model.hidden) * real(abi::elementType(model.compute).bytes) / split /
         real(inputs.recompute->group);
}

double heldBytes(const BoundInputs &inputs, double kept, double state) {
  const int64_t layers = inputs.model().layers;
  if (!inputs.isPipeline())
    return real(std::max<int64_t>(0, layers - 1)) * kept;
  double inverse = 0;
  for (double held : inputs.timetable->held)
    inverse += 1 / std::max(state + held * kept, 1e-30);
  int64_t others = layers - static_cast<int64_t>(inputs.timetable->held.size());
  return inverse > 0 ? real(std::max<int64_t>(others, 0)) / inverse : 0;
}

double layersInFlight(const BoundInputs &inputs) {
  const double layers = real(inputs.model().layers);
  if (!inputs.isPipeline())
    return layers;
  const TimetableFacts &facts = *inputs.timetable;
  auto ranks = static_cast<size_t>(inputs.pp), stages = facts.held.size();
  std::vector<double> held(ranks);
  for (size_t stage = 0; stage < stages; ++stage) {
    bool isBack = facts.isInV && stage / ranks % 2 == 1;
    held[isBack ? ranks - 1 - stage % ranks : stage % ranks] += facts.held[stage];
  }
  return stages == 0 ? 0 : std::ranges::max(held) * layers / static_cast<double>(stages);
}

} // namespace dtc::plans
