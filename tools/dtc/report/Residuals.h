// How accurate a prediction was.
#pragma once

#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

namespace dtc {

/// "residuals" of docs/report.md: for each class of work, that is each kernel and each kind of communication, how long
/// a rank spends on it in a step on average, as predicted and as measured. The largest difference comes first.
nlohmann::ordered_json residualsJson(const RunTrace &predicted, const RunTrace &measured);

} // namespace dtc
