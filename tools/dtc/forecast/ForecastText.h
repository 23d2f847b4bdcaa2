// The text of a forecast, for people and for their programs.
#pragma once

#include "timing/events/forecast.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// "1.23 s", "45.6 ms", "789 us".
std::string secondsText(double seconds);

/// One screen.
void printForecast(const abi::Manifest &manifest, const timing::Layout &layout, const timing::Forecast &forecast);

/// Two lines to print after compiling: how long a step takes and how long it waits, and the lower bound.
std::vector<std::string> forecastLines(const timing::Layout &layout, const timing::Forecast &forecast);

nlohmann::ordered_json toJson(const abi::Manifest &manifest, const timing::Layout &layout,
                              const timing::Forecast &forecast);

} // namespace dtc
