// Weights for the reference interpreter: a parameter's logical tensor, from a model's files.
#pragma once

#include "dialect/IR/HostTensor.h"
#include "dialect/IR/Ops.h"
#include "runtime/weights/safetensors.h"

#include <cassert>
#include <vector>

namespace dtc {

/// permute(reshape(file, factored)): `file` has the elements of the tensor as the files store it.
inline mlir::dt::HostTensor toLogical(mlir::dt::ParamAttr param, llvm::ArrayRef<double> file) {
  llvm::ArrayRef<int64_t> factored = param.getFactoredShape(), permutation = param.getPermutation();
  llvm::SmallVector<int64_t> strides(factored.size(), 1);
  for (int64_t dim = static_cast<int64_t>(factored.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * factored[dim + 1];
  mlir::dt::HostTensor logical(param.getLogicalShape());
  assert(logical.size() == static_cast<int64_t>(file.size()));
  for (int64_t i = 0; i < logical.size(); ++i) {
    int64_t rest = i, source = 0;
    for (int64_t dim = static_cast<int64_t>(logical.shape.size()) - 1; dim >= 0; --dim) {
      source += rest % logical.shape[dim] * strides[permutation[dim]];
      rest /= logical.shape[dim];
    }
    logical[i] = file[source];
  }
  return logical;
}

inline std::vector<double> floatsOf(const SafetensorsModel::Found &found) {
  std::vector<double> values(found.entry->elements());
  found.file->read(*found.entry, 0, 1, std::span<double>(values));
  return values;
}

} // namespace dtc
