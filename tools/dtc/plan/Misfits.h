// Why there is no plan: numbers of devices that no mesh divides, constraints that contradict each other, too little
// memory.
#pragma once

#include "timing/plans/dimensions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

class PlanSearch;
struct PlannedNumber;

/// Throws Error (BadInput) where no candidate is possible. Says which numbers of devices nearby have candidates, or the
/// smallest set of constraints that must give way; where that is one constraint with a number, which numbers would do.
void requireCandidates(const plans::Problem &problem, const std::vector<plans::Constraint> &constraints);

/// Error (BadInput) for a number of devices on which nothing fits, as a search found: the candidate that lacks least,
/// by how many bytes; which constraint stands in the way; the least number of devices that would do. `model` as the
/// user named it.
[[noreturn]] void refuseTooSmall(PlanSearch &search, const PlannedNumber &found, const std::string &model);

/// "12 layers, 12 heads and a batch of 8 samples".
std::string sizesText(const plans::ModelFacts &model);

} // namespace dtc
