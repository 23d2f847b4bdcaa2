// Which file each tensor of a checkpoint goes into, and which rank writes it.
#pragma once

#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/state.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace dtc {

/// Bounds on file sizes. There are about as many files as ranks, so that ranks do not wait for each other at one file.
/// But no file is smaller than `least` unless it is the only one, and none is larger than `most` unless a single tensor
/// is.
struct FileBounds {
  uint64_t least = 16 << 20;
  uint64_t most = 5'000'000'000; ///< where Hugging Face's tools split
};

/// One tensor in its file, and what this rank writes of it.
struct PlannedTensor {
  size_t file, entry; ///< indices into FilePlan::files and its layout's entries
  StateTensor state;  ///< this rank's shard of it
  bool mine;          ///< of the ranks that store this shard, this rank writes it
};

/// Copies everything it needs from a program, so it may outlive the program.
class FilePlan {
public:
  explicit FilePlan(const RankState &state, const FileBounds &bounds = {});
  FilePlan(FilePlan &&) = default;

  const std::string &nameOf(const PlannedTensor &tensor) const {
    return files[tensor.file].layout.entries[tensor.entry].name;
  }

  std::vector<TensorFile> files;      ///< parameters', then slots'
  std::vector<TextFile> indexes;      ///< Hugging Face's, for those split into several files
  std::vector<PlannedTensor> tensors; ///< in the files' order
  uint64_t elementsOfMine = 0;        ///< elements that this rank writes, including padding in its memory
  int rank = 0, ranks = 1;

private:
  void add(const std::string &stem, const RankState &state, const std::vector<StateTensor> &all,
           const FileBounds &bounds);
  void chooseWriters(const abi::Manifest &manifest);

  std::deque<abi::Tensor> ownTensors; // what PlannedTensor::state refers to
  std::deque<abi::Parameter> ownParameters;
};

} // namespace dtc
