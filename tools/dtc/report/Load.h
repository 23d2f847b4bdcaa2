// How evenly ranks work.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace dtc {

/// What a rank's step took on average, over the steps that are traced. Seconds.
struct RankLoad {
  int64_t rank = 0;
  double step = 0;          ///< from its begin to its end
  double compute = 0;       ///< kernels, and copies in their order
  double wait = 0;          ///< compute stood still
  double communication = 0; ///< something was under way on a channel
};
std::vector<RankLoad> loadsOf(const RunTrace &trace);

/// "load" of docs/report.md. `manifest` may be null: then all ranks are taken to have equal work.
nlohmann::ordered_json loadJson(const RunTrace &trace, const abi::Manifest *manifest);

} // namespace dtc
