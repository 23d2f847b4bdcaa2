// What ranks send each other in a step.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

namespace dtc {

/// "communication" of docs/report.md: a row for each kind, axes and size, of each role. `trace` may be null: then
/// durations are unknown.
nlohmann::ordered_json communicationJson(const abi::Manifest &manifest, const RunTrace *trace);

} // namespace dtc
