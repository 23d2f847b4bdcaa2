// What is kept from the forward to the backward pass in the layers of a class, and what is recomputed.
#pragma once

#include "passes/choices/LayerRuns.h"
#include "runtime/abi/recompute.h"

namespace dtc {

using RecomputeRun = LayerRun<abi::Recompute>;

struct RecomputeRule {
  std::string layers;             ///< a pattern over classes of layers: "h.*"; "*" includes what is in no layer
  std::vector<RecomputeRun> runs; ///< in the order of the layers
  std::string where;              ///< "file:line", for messages
};

/// "full", or "5 full, 7 cheap"; nothing for any other text.
std::optional<std::vector<RecomputeRun>> parseRecomputeRuns(llvm::StringRef text);
std::string printRecomputeRuns(const std::vector<RecomputeRun> &runs);

} // namespace dtc
