#include "runtime/checkpoint/file_plan.h"

#include "runtime/abi/element_type.h"
#include "runtime/comm/mesh.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

namespace dtc {

FilePlan::FilePlan(const RankState &state, const FileBounds &bounds)
    : rank(state.rank()), ranks(Mesh(state.manifest().mesh()).ranks()) {
  add("model", state, state.allParameters(), bounds);
  if (!state.allMoments().empty())
    add("optimizer", state, state.allMoments(), bounds);
  chooseWriters(state.manifest());
  for (const PlannedTensor &tensor : tensors)
    elementsOfMine += tensor.mine ? static_cast<uint64_t>(tensor.state.localElements()) : 0;
}

static SafetensorsTensor describe(const RankState &state, const StateTensor &tensor) {
  return {state.fileName(tensor),
          {tensor.parameter->file_shape().begin(), tensor.parameter->file_shape().end()},
          tensor.tensor->type()};
}

static uint64_t bytesOf(const SafetensorsTensor &tensor) {
  int64_t elements = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t(1), std::multiplies<>());
  return abi::bytesOf(tensor.type, static_cast<uint64_t>(elements));
}

/// The tensors cut into files, in their order.
static std::vector<std::vector<SafetensorsTensor>> cut(std::vector<SafetensorsTensor> tensors, int files,
                                                       const FileBounds &bounds) {
  uint64_t all = 0;
  for (const SafetensorsTensor &tensor : tensors)
    all += bytesOf(tensor);
  uint64_t target = std::min(std::max(all / static_cast<uint64_t>(files) + 1, bounds.least), bounds.most), held = 0;
  std::vector<std::vector<SafetensorsTensor>> parts(1);
  for (SafetensorsTensor &tensor : tensors) {
    uint64_t bytes = bytesOf(tensor);
    if (!parts.back().empty() && held + bytes > target) {
      parts.emplace_back();
      held = 0;
    }
    held += bytes;
    parts.back().push_back(std::move(tensor));
  }
  return parts;
}

/// What transformers looks tensors up in.
static TextFile indexOf(const std::string &stem, std::span<const TensorFile> files) {
  uint64_t bytes = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const TensorFile &file : files)
    for (const SafetensorsEntry &entry : file.layout.entries) {
      map[entry.name] = file.name;
      bytes += entry.end - entry.begin;
    }
  nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return {stem + ".safetensors.index.json", index.dump(2) + "\n"};
}

void FilePlan::add(const std::string &stem, const RankState &state, const std::vector<StateTensor> &all,
                   const FileBounds &bounds) {
  std::vector<SafetensorsTensor> described;
  for (const StateTensor &tensor : all)
    described.push_back(describe(state, tensor));
  std::vector<std::vector<SafetensorsTensor>> parts = cut(described, ranks, bounds);
  size_t first = files.size(), next = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    std::string name = parts.size() == 1 ? stem + ".safetensors"
                                         : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, part + 1, parts.size());
    for (size_t entry = 0; entry < parts[part].size(); ++entry, ++next) {
      StateTensor own = all[next];
      own.tensor = &ownTensors.emplace_back(*own.tensor);
      own.parameter = &ownParameters.emplace_back(*own.parameter);
      tensors.push_back({files.size(), entry, std::move(own), false});
    }
    files.push_back({name, layoutSafetensors(parts[part], {{"format", "pt"}})});
  }
  if (parts.size() > 1)
    indexes.push_back(indexOf(stem, std::span(files).subspan(first)));
}

/// Of the ranks that store the same, the one with the least to write so far takes it, the largest tensors first. All
/// ranks find the same.
void FilePlan::chooseWriters(const abi::Manifest &manifest) {
  Mesh mesh(manifest.mesh());
  Pieces pieces(manifest, mesh);
  std::vector<std::pair<int64_t, size_t>> bySize; // the largest first, of equal ones the first
  for (size_t number = 0; number < tensors.size(); ++number)
    bySize.emplace_back(-tensors[number].state.localElements(), number);
  std::ranges::sort(bySize);
  std::vector<int64_t> load(static_cast<size_t>(ranks), 0);
  for (auto [size, number] : bySize) {
    const std::vector<int64_t> &places = pieces.of(*tensors[number].state.tensor);
    std::map<int64_t, int> writers; // by piece
    for (int other = 0; other < ranks; ++other) {
      if (places[other] == Pieces::None)
        continue;
      auto [found, isNew] = writers.emplace(places[other], other);
      if (!isNew && load[other] < load[found->second])
        found->second = other;
    }
    for (auto [place, writer] : writers)
      load[writer] -= size;
    tensors[number].mine = places[rank] != Pieces::None && writers[places[rank]] == rank;
  }
}

} // namespace dtc
