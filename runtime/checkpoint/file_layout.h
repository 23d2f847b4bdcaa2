// Where a rank's shard of a parameter is in the parameter's tensor in the model file.
//
// The file's tensor, row-major, is the row-major factored tensor of the same elements; logical dimension i is factored
// dimension permutation[i]. So element (l0, l1, ...) of the logical tensor is element sum(l_i * stride_i) of the
// file's, where stride_i is the row-major stride of factored dimension permutation[i]. Example: GPT-2's c_attn.weight
// [768, 2304], factored [768, 3, 12, 64], logical order (3, 12, 64, 768): strides (768, 64, 1, 2304).
//
// Memory has the logical order, files have their own. Data is therefore put into the file's order before writing,
// without gaps ("packed"): whatever is contiguous in the file is then contiguous in memory, too.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/executor/shard.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dtc {

/// Elements that are consecutive in the shard and evenly spaced in the file.
struct FileRun {
  int64_t local;   ///< index of the first in the rank's storage
  int64_t logical; ///< row-major index of the first in the logical tensor
  int64_t file;    ///< index of the first in the file's tensor
  int64_t stride;  ///< from one to the next in the file's tensor
  int64_t packed;  ///< index of the first among the shard's elements in the file's order
  int64_t step;    ///< from one to the next there
  int64_t count;

  /// The elements [first, first + many) of the run.
  FileRun part(int64_t first, int64_t many) const {
    return {local + first, logical + first, file + first * stride, stride, packed + first * step, step, many};
  }
};

/// Elements that are consecutive in the file.
struct FileRange {
  int64_t file;   ///< index of the first in the file's tensor
  int64_t packed; ///< index of the first among the shard's elements in the file's order
  int64_t count;
};

/// A shard as the file sees it: a box of the factored tensor, the slowest dimension first.
struct FileBox {
  std::vector<int64_t> begin, size, whole; ///< of the box, and the tensor's sizes

  int64_t elements() const;
  /// Calls visit(FileRange) for all elements in the file's order.
  template <typename Visit> void forEachRange(Visit visit) const;
};

/// One tensor of a rank's state: a parameter or an optimizer moment.
struct StateTensor {
  const abi::Tensor *tensor;
  const abi::Parameter *parameter;
  Shard shard;                      ///< everything that the rank stores of it, or a part
  std::vector<int64_t> first;       ///< per logical dimension, the index of the shard's first in the rank's storage
  std::vector<int64_t> fileStrides; ///< per logical dimension, as above
  std::vector<int64_t> fileOrder;   ///< the logical dimensions as the file has them, the slowest first

  /// Calls visit(FileRun) for all elements of the shard in memory order, without padding.
  template <typename Visit> void forEachRun(Visit visit) const;
  /// Calls visit(StateTensor) for consecutive parts of the shard in the file's order, each of at most `most` elements
  /// (at least one).
  template <typename Visit> void forEachPart(int64_t most, Visit visit) const;
  FileBox box() const;
  /// The elements in this rank's storage, padding included.
  int64_t localElements() const;

private:
  std::vector<int64_t> packedSteps() const;
};

/// Throws Error (BadInput) when the parameter's bijection or the tensor's shapes contradict each other.
StateTensor stateTensor(const abi::Manifest &manifest, const abi::Tensor &tensor, const Mesh &mesh, int rank);

template <typename Visit> void StateTensor::forEachRun(Visit visit) const {
  if (shard.elements() == 0)
    return;
  int rank = tensor->global_shape_size();
  std::vector<int64_t> index(rank, 0); // within the shard; the last dimension is a run
  std::vector<int64_t> steps = packedSteps();
  for (bool more = true; more;) {
    FileRun run{
        0, 0, 0, rank ? fileStrides[rank - 1] : 1, 0, rank ? steps[rank - 1] : 1, rank ? shard.size[rank - 1] : 1};
    for (int dim = 0; dim < rank; ++dim) {
      int64_t global = shard.begin[dim] + index[dim];
      run.local = run.local * tensor->local_shape(dim) + first[dim] + index[dim];
      run.logical = run.logical * tensor->global_shape(dim) + global;
      run.file += global * fileStrides[dim];
      run.packed += index[dim] * steps[dim];
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

template <typename Visit> void StateTensor::forEachPart(int64_t most, Visit visit) const {
  int64_t elements = shard.elements();
  if (elements == 0)
    return;
  auto cut = std::ranges::find_if(fileOrder, [&](int64_t dim) { return shard.size[dim] > 1; });
  if (elements <= most || cut == fileOrder.end())
    return visit(*this);
  int64_t size = shard.size[*cut], width = std::max<int64_t>(most / (elements / size), 1);
  for (int64_t begin = 0; begin < size; begin += width) {
    StateTensor part = *this;
    part.first[*cut] += begin;
    part.shard.begin[*cut] += begin;
    part.shard.size[*cut] = std::min(width, size - begin);
    part.forEachPart(most, visit);
  }
}

template <typename Visit> void FileBox::forEachRange(Visit visit) const {
  if (elements() == 0)
    return;
  // Whole dimensions merge with the one before them, which is the last to be split.
  int inner = static_cast<int>(size.size());
  int64_t count = 1;
  while (inner > 0) {
    count *= size[--inner];
    if (size[inner] != whole[inner])
      break;
  }
  std::vector<int64_t> index(static_cast<size_t>(inner), 0);
  for (int64_t packed = 0;; packed += count) {
    int64_t file = 0;
    for (size_t dim = 0; dim < size.size(); ++dim)
      file = file * whole[dim] + begin[dim] + (dim < index.size() ? index[dim] : 0);
    visit(FileRange{file, packed, count});
    int dim = inner - 1;
    while (dim >= 0 && ++index[dim] == size[dim])
      index[dim--] = 0;
    if (dim < 0)
      return;
  }
}

} // namespace dtc
