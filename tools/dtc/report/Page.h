// The pages of `dtc report` and `dtc plan`: one file that needs no other file and no network.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dtc {

/// HTML that shows `data` (reportData). No text in the data is ever read as HTML or as a script.
std::string reportPage(const nlohmann::ordered_json &data);

/// Likewise of a plan (PlanText.h), whose Pareto front it draws.
std::string planPage(const nlohmann::ordered_json &data);

} // namespace dtc
