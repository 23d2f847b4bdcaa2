// The bubble of a pipeline, whatever its cut.
#pragma once

#include "timing/plans/bound_inputs.h"

namespace dtc::plans {

/// Seconds that a step takes at least because ranks wait for others, with what they compute; 0 where nothing is said.
double bubbleSeconds(const BoundInputs &inputs);

} // namespace dtc::plans
