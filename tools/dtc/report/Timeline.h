// Who did what when, as the page draws it.
#pragma once

#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace dtc {

/// "timeline" of docs/report.md. `predicted` may be null. Short slices that follow each other closely are drawn as one,
/// so that there are no more than `most`.
nlohmann::ordered_json timelineJson(const RunTrace &measured, const RunTrace *predicted, size_t most);

} // namespace dtc
