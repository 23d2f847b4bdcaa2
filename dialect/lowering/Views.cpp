// Views: operations that only say anew how a buffer's elements are indexed.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::dt;

StridedLayout StridedLayout::dense(ArrayRef<int64_t> shape) {
  StridedLayout layout{SmallVector<int64_t>(shape), SmallVector<int64_t>(shape.size(), 1)};
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 2; dim >= 0; --dim)
    layout.strides[dim] = layout.strides[dim + 1] * shape[dim + 1];
  return layout;
}

bool StridedLayout::isDense() const {
  int64_t expected = 1;
  for (auto [size, stride] : llvm::reverse(llvm::zip(shape, strides))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

/// Splits dimensions into runs that collapse (unit dimensions dropped), then cuts each run into the new dimensions.
std::optional<StridedLayout> mlir::dt::reshapeLayout(const StridedLayout &layout, ArrayRef<int64_t> shape) {
  SmallVector<std::pair<int64_t, int64_t>> runs; // size and innermost stride
  for (auto [size, stride] : llvm::zip(layout.shape, layout.strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == stride * size)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  StridedLayout result{SmallVector<int64_t>(shape), SmallVector<int64_t>(shape.size(), 1)};
  int64_t dim = static_cast<int64_t>(shape.size()) - 1, next = 1;
  for (auto [size, stride] : llvm::reverse(runs)) {
    int64_t left = size;
    next = stride;
    for (; dim >= 0 && (left > 1 || shape[dim] == 1); --dim) {
      if (left % shape[dim] != 0)
        return std::nullopt;
      result.strides[dim] = next;
      next *= shape[dim];
      left /= shape[dim];
    }
    if (left != 1)
      return std::nullopt;
  }
  for (; dim >= 0; --dim)
    result.strides[dim] = next;
  return result;
}

static std::optional<StridedView> reshaped(const StridedLayout &layout, ArrayRef<int64_t> shape) {
  if (auto result = reshapeLayout(layout, shape))
    return StridedView{0, *result};
  return std::nullopt;
}

static int64_t offsetOf(ArrayRef<int64_t> position, const StridedLayout &layout) {
  int64_t offset = 0;
  for (auto [index, stride] : llvm::zip(position, layout.strides))
    offset += index * stride;
  return offset;
}

std::optional<StridedView> ReshapeOp::getResultView(const StridedLayout &operand) {
  return reshaped(operand, getType().getShape());
}

SmallVector<StridedView, 1> ReshapeOp::getOperandViews(const StridedLayout &result) {
  if (auto view = reshaped(result, shapeOf(getOperand())))
    return {std::move(*view)};
  return {};
}

std::optional<StridedView> TransposeOp::getResultView(const StridedLayout &operand) {
  StridedView view{0, {SmallVector<int64_t>(getType().getShape()), {}}};
  for (int64_t dim : getPermutation())
    view.layout.strides.push_back(operand.strides[dim]);
  return view;
}

SmallVector<StridedView, 1> TransposeOp::getOperandViews(const StridedLayout &result) {
  StridedView view{0, {SmallVector<int64_t>(shapeOf(getOperand())), SmallVector<int64_t>(result.strides.size())}};
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    view.layout.strides[from] = result.strides[to];
  return {std::move(view)};
}

std::optional<StridedView> SliceOp::getResultView(const StridedLayout &operand) {
  return StridedView{offsetOf(getOffsets(), operand), {SmallVector<int64_t>(getType().getShape()), operand.strides}};
}

SmallVector<StridedView, 1> ConcatOp::getOperandViews(const StridedLayout &result) {
  auto dim = static_cast<int64_t>(getDim());
  SmallVector<int64_t> lacking(result.strides); // of operands without the dimension
  lacking.erase(lacking.begin() + dim);
  SmallVector<StridedView, 1> views;
  int64_t begin = 0;
  for (Value operand : getOperands()) {
    ArrayRef<int64_t> shape = shapeOf(operand);
    bool isLacking = shape.size() < result.strides.size();
    views.push_back({begin * result.strides[dim], {SmallVector<int64_t>(shape), isLacking ? lacking : result.strides}});
    begin += isLacking ? 1 : shape[dim];
  }
  return views;
}

std::optional<StridedView> BarrierOp::getResultView(const StridedLayout &operand) { return StridedView{0, operand}; }
SmallVector<StridedView, 1> BarrierOp::getOperandViews(const StridedLayout &result) { return {{0, result}}; }

std::optional<StridedView> TagOp::getResultView(const StridedLayout &operand) { return StridedView{0, operand}; }
SmallVector<StridedView, 1> TagOp::getOperandViews(const StridedLayout &result) { return {{0, result}}; }
