// What a step recomputes for its backward pass because it was not kept, and what that costs.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/StepWork.h"
#include "tools/dtc/forecast/CollectiveTimes.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtc {

/// Commands of equal layers together.
struct MadeAgain {
  std::string layers;            ///< "h.*"; empty outside the layers
  std::string what;              ///< "product at h.*.mlp.c_fc"
  std::set<int64_t> numbers;     ///< of these layers
  CommandTotals work;            ///< of a step of a rank
  std::optional<double> seconds; ///< of a step, running alone; where a cluster is known
};

/// For a role's first rank, in the order of the backward pass. `times`: of collectives, or null.
std::vector<MadeAgain> madeAgain(const abi::Manifest &manifest, const abi::Role &role, const CollectiveTimes *times);

/// The rows of each class of layers, summed into one.
std::vector<MadeAgain> sumByLayers(const std::vector<MadeAgain> &rows);

} // namespace dtc
