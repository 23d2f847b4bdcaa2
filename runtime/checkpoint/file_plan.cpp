#include "runtime/checkpoint/file_plan.h"

#include "runtime/abi/mesh.h"

#include <algorithm>
#include <map>

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

/// How many bytes of tensors a file may hold.
static uint64_t targetOf(std::span<const SafetensorsTensor> tensors, int files, const FileBounds &bounds) {
  uint64_t all = 0;
  for (const SafetensorsTensor &tensor : tensors)
    all += bytesOf(tensor);
  return std::min(std::max(all / static_cast<uint64_t>(files) + 1, bounds.least), bounds.most);
}

void FilePlan::add(const std::string &stem, const RankState &state, const std::vector<StateTensor> &all,
                   const FileBounds &bounds) {
  std::vector<SafetensorsTensor> described;
  for (const StateTensor &tensor : all)
    described.push_back(describe(state, tensor));
  std::vector<TensorFile> cut = cutIntoFiles(stem, described, targetOf(described, ranks, bounds));
  if (cut.size() > 1)
    indexes.push_back(indexOf(stem, cut));
  size_t next = 0;
  for (TensorFile &file : cut) {
    for (size_t entry = 0; entry < file.layout.entries.size(); ++entry, ++next) {
      StateTensor own = all[next];
      own.tensor = &ownTensors.emplace_back(*own.tensor);
      own.parameter = &ownParameters.emplace_back(*own.parameter);
      tensors.push_back({files.size(), entry, std::move(own), false});
    }
    files.push_back(std::move(file));
  }
}

/// Of the ranks that store the same piece, the one with the least to write so far writes it; the largest tensors are
/// assigned first. All ranks compute the same result.
void FilePlan::chooseWriters(const abi::Manifest &manifest) {
  Mesh mesh(manifest.mesh());
  Pieces pieces(manifest, mesh);
  std::vector<std::pair<int64_t, size_t>> bySize; // the largest first; among equals, in order
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
