// What the ranks of a plan exchange at least.
//
// Collectives over the same axes share a channel (passes/schedule/emit/Channels.h), on which one begins when the one
// before has ended: their times add up, and no step is shorter. What waits for others, what shares links with them and
// what a processor does meanwhile can only add to that (timing/events/simulate.h).
#pragma once

#include "timing/plans/bound_inputs.h"

namespace dtc::plans {

/// The ranks that hold one copy of the state, or would all hold the same.
Lanes stateLanes(const BoundInputs &inputs);

/// Of gradients, once: all-reduce; with split state reduce-scatter.
LeastExchange reductionsOf(const BoundInputs &inputs);

/// Copies of hsdp add up their pieces, at least once a step.
LeastExchange copiesReductionsOf(const BoundInputs &inputs);

/// Updated parameters once a step (zero1, zero2), in 32 bits; with split parameters those that every token meets, once,
/// in the type of products.
LeastExchange gathersOf(const BoundInputs &inputs);

/// Of one layer and one micro-batch: all-reduces or, with a split sequence, gathers and scatters.
LeastExchange exchangesOfLayer(const BoundInputs &inputs);

} // namespace dtc::plans
