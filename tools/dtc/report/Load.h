// How evenly ranks work.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace dtc {

/// The parts of a rank's step on average, over the steps that are traced. Seconds.
struct RankLoad {
  int64_t rank = 0;
  double step = 0;          ///< from its begin to its end
  double compute = 0;       ///< kernels, and copies that run in order with them
  double wait = 0;          ///< compute was idle
  double communication = 0; ///< some channel was active
};
std::vector<RankLoad> loadsOf(const RunTrace &trace);

/// "load" of docs/report.md. `manifest` may be null: then all ranks are taken to have equal work.
nlohmann::ordered_json loadJson(const RunTrace &trace, const abi::Manifest *manifest);

} // namespace dtc
