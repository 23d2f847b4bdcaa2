// The figures of a plan: whether it fits, what its step takes, and where the time goes.
#pragma once

#include "tools/dtc/plan/Placing.h"

namespace dtc {

/// Plans with these choices, of which there is a program with these figures. Throws Error where there is none. The
/// steps of a candidate that overlap are those of its program, simulated many in a row.
plans::Evaluated evaluateChoices(PlacedStep &placed, const plans::Problem &problem, const plans::Candidate &candidate,
                                 const Choices &choices);

/// Bytes that a rank's arena may have, of the rank that may have the least. 0: no limit. `scratch`: of kernels, in
/// devices and nodes.
uint64_t roomOfArena(const PlacedStep &placed, const plans::Problem &problem, uint64_t scratch);

} // namespace dtc
