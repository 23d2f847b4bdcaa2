// Rules of recomputation from text, and back.
#include "passes/choices/Recompute.h"

#include "passes/choices/Choices.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace dtc {

std::optional<std::vector<RecomputeRun>> parseRecomputeRuns(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  std::vector<RecomputeRun> runs;
  for (llvm::StringRef part : parts) {
    RecomputeRun run;
    part = part.trim();
    if (!part.empty() && llvm::isDigit(part.front())) {
      auto [number, name] = part.split(' ');
      if (number.getAsInteger(10, run.layers) || run.layers < 1)
        return std::nullopt;
      part = name.ltrim();
    }
    std::optional<abi::Recompute> how = abi::parseRecompute(part);
    if (!how || (run.layers == 0 && parts.size() > 1))
      return std::nullopt;
    run.how = *how;
    runs.push_back(run);
  }
  return runs;
}

std::string printRecomputeRuns(const std::vector<RecomputeRun> &runs) {
  return llvm::join(llvm::map_range(runs,
                                    [](const RecomputeRun &run) {
                                      return (run.layers > 0 ? std::to_string(run.layers) + " " : "") +
                                             abi::nameOf(run.how);
                                    }),
                    ", ");
}

std::vector<RecomputeRun> shareOutRuns(std::vector<RecomputeRun> runs, int64_t count) {
  while (static_cast<int64_t>(runs.size()) > std::max<int64_t>(count, 1))
    runs.erase(llvm::min_element(runs, [](const auto &a, const auto &b) { return a.layers < b.layers; }));
  std::vector<int64_t> layers;
  for (const RecomputeRun &run : runs)
    layers.push_back(std::max<int64_t>(run.layers, 1));
  for (auto [run, share] : llvm::zip_equal(runs, shareOutLayers(layers, count)))
    run.layers = share;
  return runs;
}

} // namespace dtc
