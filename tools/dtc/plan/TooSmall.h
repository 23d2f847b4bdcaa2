// A cluster that is too small for a model.
#pragma once

#include "tools/dtc/plan/PlanSearch.h"

#include <string>

namespace dtc {

/// Error (BadInput) for a number of devices on which nothing fits, as a search found: the candidate that lacks least,
/// by how many bytes; which constraint stands in the way; the least number of devices that would do. `model` as the
/// user named it.
[[noreturn]] void refuseTooSmall(PlanSearch &search, const PlannedNumber &found, const std::string &model);

} // namespace dtc
