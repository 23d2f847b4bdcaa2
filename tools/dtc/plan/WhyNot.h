// Why the other plans lose: the runner-up, and layouts that many teams would try first.
#pragma once

#include "tools/dtc/plan/PlanSearch.h"

#include <string>
#include <vector>

namespace dtc {

/// In which parts of a step two plans differ by at least half a percent of the shorter step, the largest difference
/// first: "exposed communication 310 ms instead of 80 ms, bubble 20 ms instead of 95 ms". Of `other` first.
std::string differencesText(const plans::Evaluated &other, const plans::Evaluated &proposed);

/// Why `other` is not proposed: out of memory by how much, not possible for what reason, or longer by how much and in
/// which part of the step.
std::string verdictOn(const plans::Problem &problem, const plans::Evaluated &other, const plans::Evaluated &proposed);

/// What was evaluated of each popular layout, in their order. None of one layout: it has no candidate.
using PopularPlans = std::vector<std::vector<plans::Evaluated>>;

/// Evaluates plain data parallelism; ZeRO-3 over all ranks; tensor parallelism within a node and data parallelism
/// outside; Megatron-LM's tensor x pipeline x data; a pipeline alone. Of each the most promising candidates, by their
/// bounds and by what the search has evaluated, and what fits of that. Empty for one device.
PopularPlans evaluatePopular(PlanSearch &search, const PlannedNumber &planned);

/// Of each layout the best plan that was evaluated, or that is in the table, and why it loses.
std::vector<Popular> popularVerdicts(const PlanSearch &search, const PlannedNumber &planned,
                                     const PopularPlans &evaluated);

/// A search that ended early may not have tried a popular layout that is better than what it found: then the table has
/// it. `rows`: how many the table may have. Requires a number that has not been refined.
void addToTable(PlannedNumber &planned, const PopularPlans &evaluated, size_t rows = PlanLimits().rows);

} // namespace dtc
