// Which gathers of a parameter that is stored in pieces are shared: whether it stays whole from the forward to the
// backward pass (in FSDP's terms, whether it is not resharded after the forward pass).
#pragma once

#include "passes/choices/LayerRuns.h"

namespace dtc {

enum class Gathering {
  Again,  ///< it is gathered for each reader
  Shared, ///< all readers share one gather
};

using GatherRun = LayerRun<Gathering>;

struct GatherRule {
  std::string parameters; ///< a pattern over names
  /// For the parameters of a class's layers, in the order of the layers; for what is in no layer the first counts.
  std::vector<GatherRun> runs;
  std::string where; ///< "file:line", for messages
};

/// "shared" or "again", or "8 again, 4 shared"; nothing for any other text.
std::optional<std::vector<GatherRun>> parseGatherRuns(llvm::StringRef text);
std::string printGatherRuns(const std::vector<GatherRun> &runs);

} // namespace dtc
