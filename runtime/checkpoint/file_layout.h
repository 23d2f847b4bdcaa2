// How a rank's shard of a parameter lies in the parameter's tensor of the model file.
//
// The file's tensor, row-major, is the row-major factored tensor of the same elements; logical dimension i is factored
// dimension permutation[i]. So element (l0, l1, ...) of the logical tensor is element sum(l_i * stride_i) of the
// file's, where stride_i is the row-major stride of factored dimension permutation[i]. Example: GPT-2's c_attn.weight
// [768, 2304], factored [768, 3, 12, 64], logical order (3, 12, 64, 768): strides (768, 64, 1, 2304).
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/executor/shard.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// Elements that follow one another in the shard and lie evenly spaced in the file.
struct FileRun {
  int64_t local;   ///< index of the first in the rank's storage
  int64_t logical; ///< row-major index of the first in the logical tensor
  int64_t file;    ///< index of the first in the file's tensor
  int64_t stride;  ///< from one to the next in the file's tensor
  int64_t count;
};

/// Whether the next runs will come back to the pages of the file that a run is on: where a tensor lies transposed, each
/// run is on all of them.
inline bool holdsOn(const FileRun &run) { return run.stride != 1; }

/// One tensor of a rank's state: a parameter or an optimizer moment.
struct StateTensor {
  const abi::Tensor *tensor;
  const abi::Parameter *parameter;
  Shard shard;
  std::vector<int64_t> fileStrides; ///< per logical dimension, as above

  /// Calls visit(FileRun) for all elements of the shard, padding left out.
  template <typename Visit> void forEachRun(Visit visit) const;
};

/// Throws Error (BadInput) when the parameter's bijection or the tensor's shapes contradict each other.
StateTensor stateTensor(const abi::Manifest &manifest, const abi::Tensor &tensor, const Mesh &mesh, int rank);

template <typename Visit> void StateTensor::forEachRun(Visit visit) const {
  if (shard.elements() == 0)
    return;
  int rank = tensor->global_shape_size();
  std::vector<int64_t> index(rank, 0); // within the shard; the last dimension is a run
  for (bool more = true; more;) {
    FileRun run{0, 0, 0, rank ? fileStrides[rank - 1] : 1, rank ? shard.size[rank - 1] : 1};
    for (int dim = 0; dim < rank; ++dim) {
      int64_t global = shard.begin[dim] + index[dim];
      run.local = run.local * tensor->local_shape(dim) + index[dim];
      run.logical = run.logical * tensor->global_shape(dim) + global;
      run.file += global * fileStrides[dim];
    }
    visit(run);
    more = false;
    for (int dim = rank - 2; dim >= 0 && !more; --dim) {
      more = ++index[dim] < shard.size[dim];
      if (!more)
        index[dim] = 0;
    }
  }
}

} // namespace dtc
