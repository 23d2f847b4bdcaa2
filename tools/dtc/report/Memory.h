// What a rank's arena holds in the course of a step.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

namespace dtc {

/// "memory" of docs/report.md: an object for each role. Where `trace` has a rank that plays the role, times are those
/// of the first step traced there; otherwise commands are counted. `trace` may be null.
nlohmann::ordered_json memoryJson(const abi::Manifest &manifest, const RunTrace *trace);

} // namespace dtc
