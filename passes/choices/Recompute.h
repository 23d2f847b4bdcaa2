// What of the layers of a class is kept from the forward to the backward pass and what is computed again: all of them
// alike, or the first so many in one way and those behind them in another. Said of so many layers, it is shared out in
// the same proportions where the model has more or fewer.
#pragma once

#include "runtime/abi/recompute.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Layers that follow one another and are treated alike.
struct RecomputeRun {
  abi::Recompute how;
  int64_t layers = 0; ///< how many; 0, of a lone run: all
  bool operator==(const RecomputeRun &) const = default;
};

struct RecomputeRule {
  std::string layers;             ///< a pattern over classes of layers: "h.*"; "*" is of what is in no layer, too
  std::vector<RecomputeRun> runs; ///< in the order of the layers
  std::string where;              ///< "file:line", for messages
};

/// "full", or "5 full, 7 cheap"; nothing for any other text.
std::optional<std::vector<RecomputeRun>> parseRecomputeRuns(llvm::StringRef text);
std::string printRecomputeRuns(const std::vector<RecomputeRun> &runs);

/// How each of `count` layers is treated; `runs` is not empty. With fewer layers than runs, the shortest runs get none.
std::vector<RecomputeRun> shareOutRuns(std::vector<RecomputeRun> runs, int64_t count);

} // namespace dtc
