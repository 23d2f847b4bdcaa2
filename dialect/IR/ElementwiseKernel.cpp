#include "dialect/IR/ElementwiseKernel.h"

namespace mlir::dt {

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A number that all elements share.
static bool isShared(Value value) { return tensorType(value).getRank() == 0; }

static bool isElementwise(Operation &op) {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constant.getSplat().has_value();
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return isShared(broadcast.getOperand());
  return isa<ElementwiseOpInterface>(op);
}

bool isElementwise(KernelOp kernel) {
  ArrayRef<int64_t> shape;
  auto fits = [&](Value value) {
    if (isShared(value))
      return true;
    if (shape.empty())
      shape = tensorType(value).getShape();
    return tensorType(value).getShape() == shape;
  };
  return llvm::all_of(kernel.getArguments(), fits) &&
         llvm::all_of(kernel.getBody().front().without_terminator(),
                      [&](Operation &op) { return isElementwise(op) && llvm::all_of(op.getResults(), fits); });
}

OwningOpRef<KernelOp> overElements(KernelOp kernel, int64_t count) {
  OwningOpRef<KernelOp> flat(kernel.clone());
  auto flatten = [&](Value value) {
    if (!isShared(value))
      value.setType(tensorType(value).clone(ArrayRef(count)));
  };
  llvm::for_each(flat->getArguments(), flatten);
  for (Operation &op : flat->getBody().front().without_terminator()) {
    llvm::for_each(op.getResults(), flatten);
    if (auto constant = dyn_cast<ConstantOp>(op))
      constant.setValueAttr(cast<SplatElementsAttr>(constant.getValue()).resizeSplat(tensorType(constant)));
  }
  SmallVector<Type> arguments(ValueRange(flat->getArguments()).getTypes());
  flat->setFunctionType(
      FunctionType::get(kernel.getContext(), arguments, SmallVector<Type>(flat->getYield().getOperandTypes())));
  return flat;
}

std::string formulaOf(KernelOp kernel) {
  OwningOpRef<KernelOp> one = overElements(kernel, 1);
  one->setSymName("formula");
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*one)->print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

} // namespace mlir::dt
