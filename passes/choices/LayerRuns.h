// What is chosen for the layers of a class: one way for all of them, or one way for a number of first layers and
// another for those after them. Where the model has more or fewer layers than the text counts, they are shared out in
// the same proportions.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// Layers that follow one another and are treated alike.
template <typename How> struct LayerRun {
  How how = {};
  int64_t layers = 0; ///< how many; 0, for a lone run: all
  bool operator==(const LayerRun &) const = default;
};

/// The number of layers in each group when there are `count` in all: in the same proportions, at least one each.
std::vector<int64_t> shareOutLayers(const std::vector<int64_t> &layers, int64_t count);

/// The number of layers in each run, likewise; with fewer layers than runs, the shortest runs get none.
std::vector<int64_t> sharesOfRuns(const std::vector<int64_t> &layers, int64_t count);

/// How each of `count` layers is treated; `runs` is not empty.
template <typename How> std::vector<LayerRun<How>> shareOutRuns(const std::vector<LayerRun<How>> &runs, int64_t count) {
  std::vector<int64_t> layers;
  for (const LayerRun<How> &run : runs)
    layers.push_back(run.layers);
  std::vector<int64_t> shares = sharesOfRuns(layers, count);
  std::vector<LayerRun<How>> shared;
  for (size_t run = 0; run < runs.size(); ++run)
    if (shares[run] > 0)
      shared.push_back({runs[run].how, shares[run]});
  return shared;
}

/// How one of `count` layers is treated, counted from 0.
template <typename How> How howOfLayer(const std::vector<LayerRun<How>> &runs, int64_t layer, int64_t count) {
  std::vector<LayerRun<How>> shared = shareOutRuns(runs, count);
  size_t run = 0;
  for (; run + 1 < shared.size() && layer >= shared[run].layers; ++run)
    layer -= shared[run].layers;
  return shared[run].how;
}

/// The parts of "5 full, 7 cheap": how many layers, and the text after it; 0 where a lone part says no number. Nothing
/// for any other text.
std::optional<std::vector<LayerRun<llvm::StringRef>>> splitLayerRuns(llvm::StringRef text);

/// "full", or "5 full, 7 cheap", with whatever `parse` accepts for `full` and `cheap`; nothing for any other text.
template <typename How, typename Parse>
std::optional<std::vector<LayerRun<How>>> parseLayerRuns(llvm::StringRef text, Parse parse) {
  std::optional<std::vector<LayerRun<llvm::StringRef>>> parts = splitLayerRuns(text);
  if (!parts)
    return std::nullopt;
  std::vector<LayerRun<How>> runs;
  for (const LayerRun<llvm::StringRef> &part : *parts) {
    std::optional<How> how = parse(part.how);
    if (!how)
      return std::nullopt;
    runs.push_back({std::move(*how), part.layers});
  }
  return runs;
}

/// The text that parseLayerRuns reads back.
template <typename How, typename NameOf>
std::string printLayerRuns(const std::vector<LayerRun<How>> &runs, NameOf nameOf) {
  std::string text;
  for (const LayerRun<How> &run : runs)
    text += (text.empty() ? "" : ", ") + (run.layers > 0 ? std::to_string(run.layers) + " " : "") +
            std::string(nameOf(run.how));
  return text;
}

/// The runs of layers that are treated like this, in order.
template <typename How> std::vector<LayerRun<How>> runsOfLayers(const std::vector<How> &layers) {
  std::vector<LayerRun<How>> runs;
  for (const How &how : layers) {
    if (runs.empty() || runs.back().how != how)
      runs.push_back({how, 0});
    ++runs.back().layers;
  }
  if (runs.size() == 1)
    runs.front().layers = 0;
  return runs;
}

} // namespace dtc
