// Reference semantics of constants, numbered elements, and operations that move or reduce elements.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "dialect/reference/Random.h"
#include "dialect/reference/Strided.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

using Operands = ArrayRef<HostTensor>;
using Results = SmallVectorImpl<HostTensor>;

/// The element of the whole tensor at which a rank's piece of `dim` begins.
static int64_t firstIndex(std::optional<ShardingAttr> sharding, int64_t dim, int64_t localSize,
                          const RankContext &rank) {
  return sharding ? rank.indexIn(sharding->getDimAxes(dim)) * localSize : 0;
}

LogicalResult ConstantOp::evaluate(Operands, const RankContext &, Results &results) {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense)
    return emitOpError("the interpreter reads dense constants only, not ") << getValue();
  HostTensor &result = results.emplace_back(dense.getType().getShape());
  if (isa<FloatType>(dense.getElementType()))
    llvm::transform(dense.getValues<APFloat>(), result.elements->begin(),
                    [](const APFloat &x) { return x.convertToDouble(); });
  else // integers are signed, masks 0 or 1
    llvm::transform(dense.getValues<APInt>(), result.elements->begin(), [](const APInt &x) {
      return x.getBitWidth() == 1 ? double(x.getZExtValue()) : double(x.getSExtValue());
    });
  return success();
}

/// Evaluates an operation whose elements are functions of a number.
template <typename Op>
static LogicalResult evaluateNumbers(Op op, Operands operands, const RankContext &rank, Results &results) {
  HostTensor &result = results.emplace_back(op.getType().getShape());
  walkStrided(result.shape, op.getIndexStrides(), 0,
              [&](int64_t i, int64_t number) { result[i] = op.evaluateNumber(operands, rank, number); });
  return success();
}

LogicalResult IotaOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  return evaluateNumbers(*this, operands, rank, results);
}

double IotaOp::evaluateNumber(Operands, const RankContext &rank, int64_t number) {
  int64_t dim = getDim();
  return static_cast<double>(firstIndex(getSharding(), dim, getType().getDimSize(dim), rank) + number);
}

LogicalResult RandomOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  return evaluateNumbers(*this, operands, rank, results);
}

double RandomOp::evaluateNumber(Operands operands, const RankContext &rank, int64_t number) {
  const HostTensor &key = operands[0];
  for (auto [dim, stride] : llvm::enumerate(getIndexStrides())) {
    int64_t sampleOffset = dim == 0 ? keyWord(key, 2) : 0;
    number += (firstIndex(getSharding(), int64_t(dim), getType().getDimSize(dim), rank) + sampleOffset) * stride;
  }
  uint32_t stream = randomStream(key, rank.sites.empty() ? int64_t(getSite()) : rank.sites[getSite()]);
  return dtc::random::uniform(stream, uint64_t(number));
}

LogicalResult BroadcastOp::evaluate(Operands operands, const RankContext &, Results &results) {
  ArrayRef<int64_t> shape = getType().getShape();
  SmallVector<int64_t> strides(shape.size(), 0), dense = denseStrides(operands[0].shape);
  for (auto [dim, stride] : llvm::zip(getDims(), dense))
    strides[dim] = stride;
  results.push_back(readStrided(operands[0], shape, strides));
  return success();
}

LogicalResult ReshapeOp::evaluate(Operands operands, const RankContext &, Results &results) {
  results.push_back(reshape(operands[0], getType().getShape()));
  return success();
}

LogicalResult TransposeOp::evaluate(Operands operands, const RankContext &, Results &results) {
  results.push_back(permute(operands[0], getPermutation()));
  return success();
}

LogicalResult ReduceOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const Reduction &reduction = reductionOf(getKind());
  HostTensor result(getType().getShape(), reduction.identity());
  // Strides of the result under the operand's dimensions: none along those that disappear.
  SmallVector<int64_t> strides(operands[0].shape.size(), 0), dense = denseStrides(result.shape);
  size_t kept = 0;
  for (size_t dim = 0; dim < strides.size(); ++dim)
    if (!llvm::is_contained(getDims(), int64_t(dim)))
      strides[dim] = dense[kept++];
  const double *from = operands[0].elements->data();
  double *to = result.elements->data();
  walkStrided(operands[0].shape, strides, 0, [&](int64_t i, int64_t j) { to[j] = reduction.combine(to[j], from[i]); });
  results.push_back(result);
  return success();
}

LogicalResult SliceOp::evaluate(Operands operands, const RankContext &, Results &results) {
  SmallVector<int64_t> strides = denseStrides(operands[0].shape);
  int64_t first = 0;
  for (auto [offset, stride] : llvm::zip(getOffsets(), strides))
    first += offset * stride;
  results.push_back(readStrided(operands[0], getType().getShape(), strides, first));
  return success();
}

/// Writes `part`, in the shape `box`, into the box of `whole` that begins at `offsets`.
static void writeBox(const HostTensor &part, ArrayRef<int64_t> box, HostTensor &whole, ArrayRef<int64_t> offsets) {
  SmallVector<int64_t> strides = denseStrides(whole.shape);
  int64_t first = 0;
  for (auto [offset, stride] : llvm::zip(offsets, strides))
    first += offset * stride;
  walkStrided(box, strides, first, [&](int64_t i, int64_t j) { whole[j] = part[i]; });
}

static void writeBox(const HostTensor &part, HostTensor &whole, ArrayRef<int64_t> offsets) {
  writeBox(part, part.shape, whole, offsets);
}

LogicalResult PadOp::evaluate(Operands operands, const RankContext &, Results &results) {
  writeBox(operands[0], results.emplace_back(getType().getShape()), getOffsets());
  return success();
}

LogicalResult ConcatOp::evaluate(Operands operands, const RankContext &, Results &results) {
  HostTensor &result = results.emplace_back(getType().getShape());
  SmallVector<int64_t> offsets(result.shape.size(), 0);
  for (auto [index, operand] : llvm::enumerate(operands)) {
    SmallVector<int64_t> box = getBoxShape(index);
    writeBox(operand, box, result, offsets);
    offsets[getDim()] += box[getDim()];
  }
  return success();
}

// Wherever a value is stored, and however it is marked, it is the same.
#define DT_EVALUATE_AS_OPERAND(Op)                                                                                     \
  LogicalResult Op::evaluate(Operands operands, const RankContext &, Results &results) {                               \
    results.push_back(operands[0]);                                                                                    \
    return success();                                                                                                  \
  }
DT_EVALUATE_AS_OPERAND(TagOp)
DT_EVALUATE_AS_OPERAND(BarrierOp)
DT_EVALUATE_AS_OPERAND(ReshardOp)
DT_EVALUATE_AS_OPERAND(CopyOp)
DT_EVALUATE_AS_OPERAND(OffloadOp)
DT_EVALUATE_AS_OPERAND(FetchOp)
DT_EVALUATE_AS_OPERAND(WaitOp)
DT_EVALUATE_AS_OPERAND(AwaitOp)
#undef DT_EVALUATE_AS_OPERAND

LogicalResult UpdateSliceOp::evaluate(Operands operands, const RankContext &, Results &results) {
  HostTensor &result = results.emplace_back(operands[0].shape);
  *result.elements = *operands[0].elements;
  writeBox(operands[1], result, getOffsets());
  return success();
}

LogicalResult ShardSliceOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  HostTensor &result = results.emplace_back(shapeOf(getResult()));
  auto axes = llvm::map_to_vector(getAxes(), [](Attribute ref) { return cast<AxisRefAttr>(ref); });
  int64_t dim = getDim(), first = rank.indexIn(axes) * result.shape[dim], size = operands[0].shape[dim];
  // Elements of this part that exist; the rest of the last parts stays zero.
  SmallVector<int64_t> present(result.shape), strides = denseStrides(operands[0].shape);
  present[dim] = std::clamp<int64_t>(size - first, 0, result.shape[dim]);
  HostTensor part =
      present[dim] == 0 ? HostTensor(present) : readStrided(operands[0], present, strides, first * strides[dim]);
  writeBox(part, result, SmallVector<int64_t>(present.size(), 0));
  return success();
}

LogicalResult WriteRowsOp::evaluate(Operands operands, const RankContext &, Results &results) {
  const HostTensor &init = operands[0], &rows = operands[1], &positions = operands[2];
  HostTensor result(init.shape);
  *result.elements = *init.elements;
  int64_t capacity = init.shape[1], count = rows.shape[1], width = rows.size() / (rows.shape[0] * count);
  for (int64_t b = 0; b < rows.shape[0]; ++b)
    for (int64_t s = 0; s < count; ++s) {
      double position = positions[s];
      if (std::isnan(position)) // an undefined position may be any
        std::fill(result.elements->begin(), result.elements->end(), position);
      if (position >= 0 && position < double(capacity))
        std::copy_n(rows.elements->data() + (b * count + s) * width, width,
                    result.elements->data() + (b * capacity + int64_t(position)) * width);
    }
  results.push_back(result);
  return success();
}
