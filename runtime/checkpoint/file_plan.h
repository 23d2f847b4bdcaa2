// Which tensor of a checkpoint lies in which file, and which rank writes it.
#pragma once

#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/state.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace dtc {

/// How large files are. There are about as many as ranks, so that they do not wait for each other at one file, but none
/// is smaller than `least` unless it is the only one, and none larger than `most` unless one tensor is.
struct FileBounds {
  uint64_t least = 16 << 20;
  uint64_t most = 5'000'000'000; ///< where Hugging Face's tools cut
};

/// One tensor in its file, and what this rank writes of it.
struct PlannedTensor {
  size_t file, entry; ///< indices into FilePlan::files and its layout's entries
  StateTensor state;  ///< this rank's shard of it
  bool mine;          ///< of the ranks that store this shard, this one writes it
};

/// Has copies of all that it needs of a program, and may be read when that is gone.
class FilePlan {
public:
  explicit FilePlan(const RankState &state, const FileBounds &bounds = {});
  FilePlan(FilePlan &&) = default;

  const std::string &nameOf(const PlannedTensor &tensor) const {
    return files[tensor.file].layout.entries[tensor.entry].name;
  }

  std::vector<TensorFile> files;      ///< parameters', then slots'
  std::vector<TextFile> indexes;      ///< Hugging Face's, of those of which there are several
  std::vector<PlannedTensor> tensors; ///< in the files' order
  uint64_t elementsOfMine = 0;        ///< of what this rank writes, padding in its memory included
  int rank = 0, ranks = 1;

private:
  void add(const std::string &stem, const RankState &state, const std::vector<StateTensor> &all,
           const FileBounds &bounds);
  void chooseWriters(const abi::Manifest &manifest);

  std::deque<abi::Tensor> ownTensors; // what PlannedTensor::state refers to
  std::deque<abi::Parameter> ownParameters;
};

} // namespace dtc
