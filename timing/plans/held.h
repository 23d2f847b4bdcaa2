// The bytes that a rank of a plan holds at least.
#pragma once

#include "timing/plans/bound_inputs.h"

namespace dtc::plans {

/// Of parameters, slots and gradients for each parameter of a rank's stage, without counting its place in a pipeline:
/// the fullest rank holds at least the mean. With tp all would be split at best; norms and biases are not. Gradients
/// live as long as the state (test/e2e/memory_test.cpp has their bytes): in 32 bits, or in what they travel in if there
/// is nothing to add; zero1 adds up whole ones. With PipeDream each is gone after its update, so they do not count.
/// 16-bit copies of parameters, which some targets keep, are not counted.
double stateBytesOfParameter(const BoundInputs &inputs);

/// Of all parameters of the mean rank of a pipeline.
double stateBytes(const BoundInputs &inputs);

/// What a layer keeps at least of a micro-batch: its input or something as large, from which its weight gradients
/// follow. In the type of products; between blocks it may be split along the sequence. 0 where nothing need be kept on
/// the device.
double keptBytesOfLayer(const BoundInputs &inputs);

/// At the end of a forward pass there is what all layers of a rank keep, but for the first one, whose input follows
/// from the tokens or is counted elsewhere. Where stages have n_s layers and hold k_s micro-batches, some rank has (n_s
/// - 1) (state + k_s kept) or more, and all n_s - 1 add up to L less the stages: so it has at least that over the sum
/// of 1 / (state + k_s kept), whatever the cut. `state`: bytes of one layer's.
double heldBytes(const BoundInputs &inputs, double kept, double state);

/// Layers whose data the fullest rank has at a time if stages are cut evenly, each counted for each of its
/// micro-batches. 0 where nothing is known.
double layersInFlight(const BoundInputs &inputs);

} // namespace dtc::plans
