// Rules of recomputation from text, and back.
#include "passes/choices/Recompute.h"

namespace dtc {

std::optional<std::vector<RecomputeRun>> parseRecomputeRuns(llvm::StringRef text) {
  return parseLayerRuns<abi::Recompute>(text, abi::parseRecompute);
}

std::string printRecomputeRuns(const std::vector<RecomputeRun> &runs) {
  return printLayerRuns(runs, [](const abi::Recompute &how) { return abi::nameOf(how); });
}

} // namespace dtc
