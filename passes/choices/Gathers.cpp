// Rules of gathers from text, and back.
#include "passes/choices/Gathers.h"

namespace dtc {

static std::optional<Gathering> parseGathering(llvm::StringRef text) {
  if (text == "shared")
    return Gathering::Shared;
  return text == "again" ? std::optional(Gathering::Again) : std::nullopt;
}

static const char *nameOf(Gathering how) { return how == Gathering::Shared ? "shared" : "again"; }

std::optional<std::vector<GatherRun>> parseGatherRuns(llvm::StringRef text) {
  return parseLayerRuns<Gathering>(text, parseGathering);
}

std::string printGatherRuns(const std::vector<GatherRun> &runs) { return printLayerRuns(runs, nameOf); }

} // namespace dtc
