// What a forecast says, for people and for their programs.
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

/// Two lines to print after compiling: what a step takes and how long it waits, and what no order can beat.
std::vector<std::string> forecastLines(const timing::Layout &layout, const timing::Forecast &forecast);

nlohmann::ordered_json toJson(const abi::Manifest &manifest, const timing::Layout &layout,
                              const timing::Forecast &forecast);

} // namespace dtc
