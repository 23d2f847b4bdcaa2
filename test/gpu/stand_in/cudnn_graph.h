// Operation graphs of the stand-in for cuDNN: what the manual requires of them, and a plain interpreter. It knows
// single operations and not their combination: a graph that means something else gives a different result.
#pragma once

#include "runtime/abi/element_type.h"
#include "runtime/kernels/cuda/cudnn.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtc::test {

using Sizes4 = std::array<int64_t, 4>;

struct GraphTensor {
  int64_t number = 0;
  int type = cudnn::Float;
  Sizes4 sizes = {}, strides = {};
  int64_t alignment = 0;
  bool isVirtual = false, isByValue = false;

  bool operator==(const GraphTensor &) const = default;

  abi::DataType element() const;
  size_t elementBytes() const;
  int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  /// Elements from the first to the last, gaps included.
  int64_t span() const;
  int64_t offsetOf(const Sizes4 &index) const;
};

struct GraphOperation {
  enum Kind { Matmul, Pointwise, Reduce, Reshape } kind = Matmul;
  int mode = 0; ///< of pointwise operations and reductions
  int64_t axis = -1;
  std::vector<GraphTensor> operands;
  GraphTensor result;

  /// Why the manual has no such operation; empty: it has.
  std::string whyNot() const;
};

struct OperationsGraph {
  std::vector<GraphOperation> operations; ///< each after those whose results it reads

  /// Sorts operations. Returns why this is not a graph; empty: it is.
  std::string finish();
  /// Tensors that need an address.
  const std::map<int64_t, GraphTensor> &given() const { return outside; }

  /// Bytes of memory by tensor, those of numbers included.
  void run(const std::map<int64_t, std::byte *> &places) const;

private:
  std::map<int64_t, GraphTensor> outside;
};

} // namespace dtc::test
