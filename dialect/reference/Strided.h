// Walking a tensor by strides: what transposes, broadcasts, slices, pads and reductions have in common.
#pragma once

#include "dialect/IR/HostTensor.h"

namespace mlir::dt {

/// Strides of a dense row-major tensor.
inline SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// Calls visit(i, j) for each index of `shape` in row-major order: i counts up, j = offset + sum of index * strides.
template <typename Visit>
void walkStrided(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, int64_t offset, Visit visit) {
  int64_t total = HostTensor::numElements(shape), rank = static_cast<int64_t>(shape.size());
  if (rank == 0) {
    visit(int64_t(0), offset);
    return;
  }
  SmallVector<int64_t> index(rank, 0);
  int64_t rowSize = shape.back(), rowStride = strides.back();
  for (int64_t begin = 0; begin < total; begin += rowSize) {
    for (int64_t i = 0; i < rowSize; ++i)
      visit(begin + i, offset + i * rowStride);
    for (int64_t dim = rank - 2; dim >= 0; --dim) {
      offset += strides[dim];
      if (++index[dim] < shape[dim])
        break;
      offset -= strides[dim] * shape[dim];
      index[dim] = 0;
    }
  }
}

/// The tensor of `shape` whose elements stand in `source` at those strides.
inline HostTensor readStrided(const HostTensor &source, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                              int64_t offset = 0) {
  HostTensor result(shape);
  double *to = result.elements->data();
  const double *from = source.elements->data();
  walkStrided(shape, strides, offset, [&](int64_t i, int64_t j) { to[i] = from[j]; });
  return result;
}

/// Result dimension i is dimension permutation[i] of `source`.
inline HostTensor permute(const HostTensor &source, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape, strides, dense = denseStrides(source.shape);
  for (int64_t dim : permutation) {
    shape.push_back(source.shape[dim]);
    strides.push_back(dense[dim]);
  }
  return readStrided(source, shape, strides);
}

/// The same elements under another shape.
inline HostTensor reshape(const HostTensor &source, ArrayRef<int64_t> shape) {
  HostTensor result = source;
  result.shape.assign(shape.begin(), shape.end());
  return result;
}

} // namespace mlir::dt
