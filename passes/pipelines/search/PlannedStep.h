// A planned step as what simulators and certificates read: what the program would be, without making the program.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/events/step.h"

namespace dtc {

/// The step as timing::readStep would read it from the program that these choices lead to: each stage's functions are
/// lists of their own here, and commands are numbered as the planner numbers them.
timing::Step plannedStep(const Plan &plan, const abi::Mesh &mesh);

/// The role of each rank of a mesh, where there are so many: its rank along the pipeline.
std::vector<int> rolesOfRanks(const abi::Mesh &mesh, size_t roles);

} // namespace dtc
