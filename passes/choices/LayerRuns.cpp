// Shares of layers, and their text.
#include "passes/choices/LayerRuns.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <numeric>

namespace dtc {

std::vector<int64_t> shareOutLayers(const std::vector<int64_t> &layers, int64_t count) {
  int64_t all = std::accumulate(layers.begin(), layers.end(), int64_t(0)), before = 0, given = 0;
  std::vector<int64_t> shares;
  for (size_t group = 0; group < layers.size(); ++group) {
    before += layers[group];
    // Up to here, with at least one for each group before and after.
    auto least = static_cast<int64_t>(group + 1), left = static_cast<int64_t>(layers.size() - group - 1);
    int64_t until = std::max({std::min((before * count + all / 2) / all, count - left), given + 1, least});
    shares.push_back(until - given);
    given = until;
  }
  return shares;
}

std::vector<int64_t> sharesOfRuns(const std::vector<int64_t> &layers, int64_t count) {
  std::vector<size_t> kept(layers.size());
  std::iota(kept.begin(), kept.end(), 0);
  while (static_cast<int64_t>(kept.size()) > std::max<int64_t>(count, 1))
    kept.erase(std::ranges::min_element(kept, {}, [&](size_t run) { return layers[run]; }));
  std::vector<int64_t> own;
  for (size_t run : kept)
    own.push_back(std::max<int64_t>(layers[run], 1));
  std::vector<int64_t> shares(layers.size());
  for (auto [run, share] : llvm::zip_equal(kept, shareOutLayers(own, count)))
    shares[run] = share;
  return shares;
}

std::optional<std::vector<LayerRun<llvm::StringRef>>> splitLayerRuns(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  std::vector<LayerRun<llvm::StringRef>> runs;
  for (llvm::StringRef part : parts) {
    int64_t layers = 0;
    part = part.trim();
    if (!part.empty() && llvm::isDigit(part.front())) {
      auto [number, how] = part.split(' ');
      if (number.getAsInteger(10, layers) || layers < 1)
        return std::nullopt;
      part = how.ltrim();
    }
    if (layers == 0 && parts.size() > 1)
      return std::nullopt;
    runs.push_back({part, layers});
  }
  return runs;
}

} // namespace dtc
