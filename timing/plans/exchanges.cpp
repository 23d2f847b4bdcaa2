#include "timing/plans/exchanges.h"

#include "runtime/abi/element_type.h"
#include "timing/plans/work.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace dtc::plans {

using abi::Collective;

namespace {

double bytesOf(abi::DataType type) { return abi::elementType(type).bytes; }

Lanes lanesOf(std::initializer_list<Lane> lanes) {
  Lanes several;
  std::ranges::copy_if(lanes, std::back_inserter(several), [](const Lane &lane) { return lane.size > 1; });
  return several;
}

/// Elements whose whole gradients a rank of the mean stage reduces. Rows of an embedding may travel in its place; the
/// head's product gives all of its gradient, tied or not.
double reducedElements(const BoundInputs &inputs) {
  return multipliers(inputs.model()) / real(inputs.pp) / real(inputs.tp);
}

/// How many sums over tensor-parallel ranks a layer has in the forward pass, and as many backward: two, or one where
/// attention and the feed-forward block read the same input and their sums are added first (GPT-NeoX).
double sumsOfLayer(const ModelFacts &) { return 1; }

} // namespace

Lanes stateLanes(const BoundInputs &inputs) {
  Lane data = inputs.data;
  if (inputs.hybrid > 0)
    data.size = inputs.hybrid; // neighbours
  return lanesOf({data, inputs.along});
}

LeastExchange reductionsOf(const BoundInputs &inputs) {
  auto kind = inputs.isSplit[0] ? Collective::REDUCE_SCATTER : Collective::ALL_REDUCE;
  abi::DataType type = inputs.model().gradients;
  return inputs.context->exchange(stateLanes(inputs), kind, reducedElements(inputs) * bytesOf(type), type);
}

LeastExchange copiesReductionsOf(const BoundInputs &inputs) {
  if (inputs.hybrid == 0)
    return {};
  abi::DataType type = inputs.model().gradients;
  double bytes = reducedElements(inputs) * bytesOf(type) / real(inputs.shards());
  Lanes copies = lanesOf({{inputs.data.stride * inputs.hybrid, inputs.dp / inputs.hybrid}});
  return inputs.context->exchange(copies, Collective::ALL_REDUCE, bytes, type);
}

LeastExchange gathersOf(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  if (!inputs.isSplit[0])
    return {};
  abi::DataType type = inputs.isSplit[2] ? model.compute : abi::F32;
  double elements =
      inputs.isSplit[2] ? reducedElements(inputs) : model.parameters() / real(inputs.pp) / real(inputs.tp);
  return inputs.context->exchange(stateLanes(inputs), Collective::ALL_GATHER, elements * bytesOf(type), type);
}

LeastExchange exchangesOfLayer(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  if (inputs.tp == 1)
    return {};
  double tokens = model.tokens() / real(inputs.microBatches) / real(inputs.dp) / real(inputs.cp);
  double bytes = tokens * real(model.hidden) * bytesOf(model.compute);
  auto exchange = [&](Collective::Kind kind) {
    return inputs.context->exchange({inputs.tensor}, kind, bytes, model.compute);
  };
  LeastExchange layer;
  if (inputs.splitsSequence) {
    layer += exchange(Collective::ALL_GATHER);
    layer += exchange(Collective::REDUCE_SCATTER);
  } else {
    layer = exchange(Collective::ALL_REDUCE);
  }
  return layer.times(2 * sumsOfLayer(model));
}

} // namespace dtc::plans
