// Where each value of a function is in memory.
#include "passes/lower/kernels/Layouts.h"

#include "dialect/IR/ElementTypes.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

bool Place::isWhole() const {
  return view.offset == 0 && view.layout.isDense() &&
         HostTensor::numElements(view.layout.shape) == HostTensor::numElements(shapeOf(root));
}

/// Scalars have no strides, and may be anywhere.
static bool isNumber(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() == 1;
}

bool mustBeAligned(Operation *op, unsigned index) {
  if (isa<LaunchOp>(op))
    return !isNumber(op->getOperand(index));
  auto library = dyn_cast<LibraryOpInterface>(op);
  return library && library.mustBeAligned(index);
}

/// Whether the result may be a view of the first operand. Otherwise, as for a concatenation, it can only be made by
/// writing the operands into it, and their places follow from the result's.
static bool isViewOfOperand(ViewOpInterface op) {
  return op.getResultView(StridedLayout::dense(shapeOf(op->getOperand(0)))).has_value();
}

/// The future from which `value` was waited for, or null.
static Value futureOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasTrait<Waits>() ? op->getOperand(0) : Value();
}

/// Whether an operation writes over an operand.
static bool overwrites(OpOperand &use) {
  auto library = dyn_cast<LibraryOpInterface>(use.getOwner());
  return library && llvm::any_of(llvm::seq(use.getOwner()->getNumResults()), [&](unsigned result) {
           return library.mustBeInPlace(result) &&
                  library.getInPlaceOperand(result) == static_cast<int>(use.getOperandNumber());
         });
}

/// How often a value, or a view of it, is put together with others; nothing if anything else than reading happens to
/// it, too.
static std::optional<int> timesAssembled(Value value) {
  int times = 0;
  for (OpOperand &use : value.getUses()) {
    auto view = dyn_cast<ViewOpInterface>(use.getOwner());
    if (use.getOwner()->hasTrait<OpTrait::IsTerminator>() || overwrites(use))
      return std::nullopt;
    if (!view)
      continue;
    std::optional<int> further = isViewOfOperand(view) ? timesAssembled(view->getResult(0)) : 1;
    if (!further)
      return std::nullopt;
    times += *further;
  }
  return times;
}

/// Generated kernels and transports write without gaps, and from a place where vectors may begin.
static bool isDenseAndAligned(const StridedView &part, Type type) {
  constexpr uint64_t alignment = 256; // at least every target's
  return part.layout.isDense() && abi::bytesOf(elementTypeOf(type).type, part.offset) % alignment == 0;
}

bool canWriteInto(Value value, const StridedView &part) {
  Operation *op = value.getDefiningOp();
  if (!op || (!value.hasOneUse() && timesAssembled(value) != 1))
    return false;
  if (Value future = futureOf(value))
    return canWriteInto(future, part);
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return library.acceptsStrided(op->getNumOperands() + cast<OpResult>(value).getResultNumber());
  if (isa<CollectiveOpInterface>(op))
    return isDenseAndAligned(part, value.getType());
  if (isa<LaunchOp>(op))
    return isNumber(value) || isDenseAndAligned(part, value.getType());
  if (auto view = dyn_cast<ViewOpInterface>(op); view && op->getNumOperands() == 1)
    if (auto operands = view.getOperandViews(part.layout); !operands.empty())
      return canWriteInto(op->getOperand(0), {part.offset + operands.front().offset, operands.front().layout});
  return false;
}

/// What a collective sums up in the memory of its result, if it can be made there; or null.
static Value reducedInPlace(Value result, const StridedView &part) {
  auto collective = result.getDefiningOp<CollectiveOpInterface>();
  bool can = collective && collective.canBeInPlace() && collective->getOperand(0).hasOneUse() &&
             !collective->getOperand(0).getDefiningOp<ViewOpInterface>() &&
             canWriteInto(collective->getOperand(0), part);
  return can ? collective->getOperand(0) : Value();
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
  Value result = op->getResult(0);
  for (auto [operand, view] : llvm::zip(op->getOperands(), op.getOperandViews(layoutOf(result))))
    if (canWriteInto(operand, view)) {
      Value future = futureOf(operand), written = future ? future : operand;
      if (Value source = reducedInPlace(written, view)) {
        destinations[source] = {result, view};
        elsewhere.insert(source);
      }
      destinations[written] = {result, std::move(view)};
      elsewhere.insert(written);
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
  if (auto it = destinations.find(value); it != destinations.end())
    return within(placeOf(it->second.result), it->second.view);
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
