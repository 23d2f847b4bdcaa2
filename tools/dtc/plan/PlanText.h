// The answer of `dtc plan`, for people and for their programs.
#pragma once

#include "tools/dtc/plan/PlanAnswer.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// One screen: what is given, what was tried, the plans, why others lose, and the commands.
void printPlan(const PlanAnswer &answer);

/// The lines that say what was considered, pruned and simulated: "considered 1,200 plans; ...".
std::vector<std::string> countLines(const PlannedNumber &planned);

nlohmann::ordered_json toJson(const PlanAnswer &answer);

} // namespace dtc
