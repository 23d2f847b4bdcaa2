// Why no plan is possible, whatever memory there is: numbers of devices that no mesh divides, constraints that
// contradict each other.
#pragma once

#include "timing/plans/dimensions.h"

#include <string>
#include <vector>

namespace dtc {

/// Throws Error (BadInput) where no candidate is possible. Says which numbers of devices nearby have candidates, or which
/// constraints contradict each other and the smallest set that must give way; where that is one constraint with a
/// number, which numbers would do.
void requireCandidates(const plans::Problem &problem, const std::vector<plans::Constraint> &constraints);

/// "12 layers, 12 heads, sequences of 1024 tokens and a global batch of 8 samples".
std::string sizesText(const plans::ModelFacts &model);

} // namespace dtc
