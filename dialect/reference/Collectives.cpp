// Reference semantics of collectives. Members combine in group order, as every communicator adds in rank order.
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "dialect/reference/Strided.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

namespace {
/// A tensor as rows of chunks around one dimension: [outer, size, inner].
struct Around {
  int64_t outer, size, inner;

  Around(ArrayRef<int64_t> shape, int64_t dim)
      : outer(HostTensor::numElements(shape.take_front(dim))), size(shape[dim]),
        inner(HostTensor::numElements(shape.drop_front(dim + 1))) {}
};
} // namespace

/// Part `part` of `parts` equal ones along dim.
static HostTensor takePart(const HostTensor &whole, int64_t dim, int64_t part, int64_t parts) {
  SmallVector<int64_t> shape(whole.shape), strides = denseStrides(whole.shape);
  shape[dim] /= parts;
  return readStrided(whole, shape, strides, part * shape[dim] * strides[dim]);
}

static HostTensor combine(ArrayRef<HostTensor> members, ReductionKind kind) {
  HostTensor result(members[0].shape);
  *result.elements = *members[0].elements;
  for (const HostTensor &member : members.drop_front())
    for (int64_t i = 0; i < result.size(); ++i)
      result[i] = reductionOf(kind).combine(result[i], member[i]);
  return result;
}

static HostTensor layEndToEnd(ArrayRef<HostTensor> members, int64_t dim) {
  SmallVector<int64_t> shape(members[0].shape);
  shape[dim] *= int64_t(members.size());
  HostTensor result(shape);
  Around part(members[0].shape, dim);
  int64_t chunk = part.size * part.inner, parts = int64_t(members.size());
  for (auto [q, member] : llvm::enumerate(members))
    for (int64_t o = 0; o < part.outer; ++o)
      std::copy_n(member.elements->data() + o * chunk, chunk,
                  result.elements->data() + (o * parts + int64_t(q)) * chunk);
  return result;
}

HostTensor AllReduceOp::evaluateGroup(ArrayRef<HostTensor> members, int64_t) { return combine(members, getKind()); }

HostTensor AllGatherOp::evaluateGroup(ArrayRef<HostTensor> members, int64_t) { return layEndToEnd(members, getDim()); }

HostTensor ReduceScatterOp::evaluateGroup(ArrayRef<HostTensor> members, int64_t me) {
  int64_t parts = int64_t(members.size());
  return combine(llvm::map_to_vector(members, [&](const HostTensor &m) { return takePart(m, getDim(), me, parts); }),
                 getKind());
}

HostTensor AllToAllOp::evaluateGroup(ArrayRef<HostTensor> members, int64_t me) {
  int64_t parts = int64_t(members.size());
  return layEndToEnd(
      llvm::map_to_vector(members, [&](const HostTensor &m) { return takePart(m, getSplitDim(), me, parts); }),
      getConcatDim());
}
