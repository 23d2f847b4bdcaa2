// Where each value of a function lies.
#include "passes/lower/Layouts.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

static ArrayRef<int64_t> shapeOf(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return future.getValue().getShape();
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool Place::isWhole() const {
  return view.offset == 0 && view.layout.isDense() &&
         HostTensor::numElements(view.layout.shape) == HostTensor::numElements(shapeOf(root));
}

bool canWriteInto(Value value, const StridedLayout &layout) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return false;
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return library.acceptsStrided(op->getNumOperands() + cast<OpResult>(value).getResultNumber());
  if (auto view = dyn_cast<ViewOpInterface>(op); view && op->getNumOperands() == 1)
    if (auto operand = view.getOperandView(0, layout))
      return canWriteInto(op->getOperand(0), operand->layout);
  return false;
}

/// Whether the result may be a view of the first operand. Otherwise, as for a concatenation, it can only be made by
/// writing the operands into it, and their places follow from its own.
static bool isViewOfOperand(ViewOpInterface op) {
  return op.getResultView(StridedLayout::dense(shapeOf(op->getOperand(0)))).has_value();
}

/// What `value` is once it has been waited for, or null.
static Value futureOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasTrait<Waits>() ? op->getOperand(0) : Value();
}

Layouts::Layouts(func::FuncOp function) {
  for (Operation &op : llvm::reverse(function.front())) {
    if (op.hasTrait<Waits>())
      elsewhere.insert(op.getResult(0));
    auto view = dyn_cast<ViewOpInterface>(op);
    if (!view)
      continue;
    bool isOfOperand = isViewOfOperand(view);
    if (isOfOperand)
      elsewhere.insert(op.getResult(0));
    if (!isOfOperand || destinations.contains(op.getResult(0)))
      forward(view);
  }
}

void Layouts::forward(ViewOpInterface op) {
  const StridedLayout &result = layoutOf(op->getResult(0));
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (auto view = op.getOperandView(index, result); view && canWriteInto(operand, view->layout)) {
      destinations[operand] = {op, static_cast<unsigned>(index)};
      elsewhere.insert(operand);
    }
}

const Place &Layouts::placeOf(Value value) {
  if (auto it = places.find(value); it != places.end())
    return *it->second;
  const Place &place = found.emplace_back(findPlace(value)); // which finds others on the way
  places.try_emplace(value, &place);
  return place;
}

const StridedLayout &Layouts::layoutOf(Value value) {
  if (!ownsBuffer(value))
    return placeOf(value).view.layout;
  std::unique_ptr<const StridedLayout> &layout = dense[value.getType()];
  if (!layout)
    layout = std::make_unique<const StridedLayout>(StridedLayout::dense(shapeOf(value)));
  return *layout;
}

Place Layouts::findPlace(Value value) {
  auto within = [](const Place &outer, const StridedView &inner) {
    return Place{outer.root, {outer.view.offset + inner.offset, inner.layout}};
  };
  if (auto it = destinations.find(value); it != destinations.end()) {
    Destination destination = it->second;
    const Place &outer = placeOf(destination.op->getResult(0));
    return within(outer, *destination.op.getOperandView(destination.index, outer.view.layout));
  }
  if (Value future = futureOf(value))
    return placeOf(future);
  if (auto view = value.getDefiningOp<ViewOpInterface>(); view && isViewOfOperand(view)) {
    const Place &outer = placeOf(view->getOperand(0));
    if (auto result = view.getResultView(outer.view.layout))
      return within(outer, *result);
  }
  return {value, {0, StridedLayout::dense(shapeOf(value))}};
}

SmallVector<StridedLayout> Layouts::layoutsOf(Operation *op) {
  SmallVector<StridedLayout> layouts;
  for (Value operand : op->getOperands())
    layouts.push_back(layoutOf(operand));
  for (Value result : op->getResults())
    layouts.push_back(layoutOf(result));
  return layouts;
}

} // namespace dtc
