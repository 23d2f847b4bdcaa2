// Figures that several lints need. Private to tools/dtc/advice.
#pragma once

#include "timing/events/forecast.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace dtc {

/// The size of a mesh axis; 1 where the mesh lacks it.
int64_t axisSize(const abi::Mesh &mesh, std::string_view axis);

/// "12%", "3.4%".
std::string percentText(double share);

/// Commands, each by its list and its number there; of a bucket the first part.
using CommandSet = std::set<std::pair<std::string, uint32_t>>;

/// Seconds of a step for which some rank waits while these commands move something. Of each command only the rank that
/// waits longest for it is known (timing::Culprit), so this is at most what the rank waits that waits longest for all
/// of them.
double waitedFor(const timing::Forecast &forecast, const CommandSet &commands);

} // namespace dtc
