// The bounds. Symbols of comments: p ranks of a pipeline, m micro-batches, h hidden size, V vocabulary, L layers.
#include "timing/plans/bounds.h"

#include "runtime/abi/element_type.h"
#include "timing/plans/bubbles.h"
#include "timing/plans/exchanges.h"
#include "timing/plans/held.h"
#include "timing/plans/work.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dtc::plans {

namespace {

/// What is recomputed in products and attention. Where only a layer's input is kept, attention needs what goes into it
/// and its own result, and the feed-forward block what its first products give: of each block only the last product,
/// which has no more elements than those before it, may be left out. So at least half of the forward products of
/// weights, 2 of 6 operations, are done again, and the whole of attention, a third of its model flops.
double recomputedFlops(const BoundInputs &inputs) {
  if (!inputs.recompute || inputs.recompute->kind != abi::Recompute::Kind::Full)
    return 0;
  return layerFlops(inputs.model()) / 6 + attentionFlops(inputs.model()) / 3;
}

/// What all ranks compute in products and attention. Backward, attention does five products of scores, not four: 14
/// twelfths of its model flops.
double executedFlops(const BoundInputs &inputs) {
  return productFlops(inputs.model()) + attentionFlops(inputs.model()) / 6 + recomputedFlops(inputs);
}

double activationBytes(const BoundInputs &inputs) { return inputs.heldAlone; }

/// Both on the same rank: of a pipeline's stage the state of its layers alone.
double allBytes(const BoundInputs &inputs) {
  if (!inputs.isPipeline())
    return stateBytes(inputs) + inputs.heldAlone;
  return inputs.heldWithState;
}

double reductionSeconds(const BoundInputs &inputs) {
  if (!inputs.isFlushed)
    return 0;
  return std::max(inputs.reductions.seconds, inputs.copiesReductions.seconds);
}

/// On the channel of the reductions, too, where the axis is one: several axes might be named in another order.
double gatherSeconds(const BoundInputs &inputs) {
  if (!inputs.isFlushed)
    return 0;
  double seconds = inputs.gathers.seconds;
  bool sharesChannel = seconds > 0 && stateLanes(inputs).size() == 1;
  return sharesChannel ? seconds + inputs.reductions.seconds : seconds;
}

/// Some stages of one rank have L / p layers or more, rounded up.
double tensorSeconds(const BoundInputs &inputs) {
  if (!inputs.isFlushed)
    return 0;
  double layers = real((inputs.model().layers + inputs.pp - 1) / inputs.pp);
  return layers * real(inputs.microBatches) * inputs.ofLayer.seconds;
}

/// What the optimizer reads and writes: parameters and slots both ways, and gradients, of what a rank updates.
double updateSecondsOf(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  double bytes = 8 + 2 * model.slotBytes + std::min(4.0, real(abi::elementType(model.gradients).bytes));
  return bytes * model.parameters() / real(inputs.tp) / inputs.slotShards() / inputs.context->memoryRate();
}

/// By which a rank's processor computes later because it moves something: of one group, since a processor that moves
/// for two may do it at once. All places of a pipeline together.
double movingSeconds(const BoundInputs &inputs) {
  double tensor = real(inputs.model().layers) * real(inputs.microBatches) * inputs.ofLayer.processor;
  double state = real(inputs.pp) * std::max(inputs.reductions.processor, inputs.gathers.processor);
  return std::max(tensor, state);
}

/// Where row s of a pipeline has the share f_s of all products, does them at the rate R_s of its slowest rank, and has
/// u_s seconds of other work, a step takes T >= f_s / R_s + u_s for every s. Weighted with R_s / sum R, and with all u
/// where the weight is least: T >= 1 / sum R + min R / sum R * sum u.
///
/// Without a flush a step is what one more adds to many (timing/events/forecast.cpp). On the rank that ended last there
/// is one more backward pass then, of the stage with the fewest layers at least. Such pipelines are cut evenly.
double computeSeconds(const BoundInputs &inputs) {
  const ModelFacts &model = inputs.model();
  const Rows &rows = *inputs.rows;
  if (!inputs.isFlushed) {
    double fewest = std::floor(real(model.layers) / real(inputs.pp));
    return fewest * 2 / 3 * layerFlops(model) / real(std::max<int64_t>(1, model.layers)) / rows.most;
  }
  double others = updateSecondsOf(inputs) + movingSeconds(inputs);
  return inputs.context->stepSeconds() + executedFlops(inputs) / rows.sum + rows.least / rows.sum * others;
}

double bubbleOf(const BoundInputs &inputs) { return inputs.bubble; }

constexpr std::array<Bound, 8> boundTable = {{
    {"parameters and their state", Bound::Of::Bytes, stateBytes},
    {"activations in flight", Bound::Of::Bytes, activationBytes},
    {"state and activations", Bound::Of::Bytes, allBytes},
    {"compute", Bound::Of::Seconds, computeSeconds},
    {"compute and bubble", Bound::Of::Seconds, bubbleOf},
    {"gradients over the links", Bound::Of::Seconds, reductionSeconds},
    {"parameters over the links", Bound::Of::Seconds, gatherSeconds},
    {"activations over the tensor-parallel links", Bound::Of::Seconds, tensorSeconds},
}};

} // namespace

std::span<const Bound> bounds() { return boundTable; }

Least leastOf(const BoundInputs &inputs) {
  constexpr double Rounding = 1 - 1e-9; // sums here are added in another order than the compiler's
  Least least{-1, -1, nullptr, nullptr};
  for (const Bound &bound : bounds()) {
    double value = Rounding * bound.value(inputs);
    bool isOfBytes = bound.of == Bound::Of::Bytes;
    if (value > (isOfBytes ? least.bytes : least.seconds)) {
      (isOfBytes ? least.bytes : least.seconds) = value;
      (isOfBytes ? least.ofBytes : least.ofSeconds) = &bound;
    }
  }
  return least;
}

Least leastOf(const BoundContext &context, const Candidate &candidate) {
  return leastOf(BoundInputs(context, candidate));
}

double expectedSeconds(const BoundInputs &inputs) {
  constexpr double exposed = 0.1; // of what overlaps
  double compute = std::max(computeSeconds(inputs), bubbleOf(inputs)) + 2 * tensorSeconds(inputs);
  double state = reductionSeconds(inputs) + inputs.gathers.seconds;
  if (inputs.isPipeline() && !inputs.isSplit[1])
    return compute + state;
  return std::max(compute, state) + exposed * std::min(compute, state);
}

double updateSeconds(const BoundContext &context, const Candidate &candidate) {
  return updateSecondsOf(BoundInputs(context, candidate));
}

double floorShare(const Problem &problem, const Candidate &candidate) {
  double depth = real(problem.model.hidden) / real(candidate.sizeOf("tp"));
  return depth > 0 ? depth / (depth + 16) : 0;
}

} // namespace dtc::plans
