// What will be stored.
#include "passes/analysis/StoredValues.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

static int64_t elements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

bool dtc::StoredValues::isKernel(Operation *op) {
  auto [known, isNew] = kernels.try_emplace(op);
  if (isNew)
    known->second = isKernelOp(op);
  return known->second;
}

bool dtc::StoredValues::isLight(Operation *op) {
  if (auto known = light.find(op); known != light.end())
    return known->second;
  bool result = computeIsLight(op); // which asks about others
  return light[op] = result;
}

/// Whether an operation of a kernel reads all of an operand, whatever the index.
static bool readsWhole(OpOperand &use) {
  auto fusible = dyn_cast<dt::FusibleOpInterface>(use.getOwner());
  return fusible && !fusible.getOperandDims(use.getOperandNumber());
}

bool dtc::StoredValues::computeIsLight(Operation *op) {
  if (!isKernel(op))
    return false;
  Value result = op->getResult(0);
  bool reduces = llvm::any_of(op->getOperands(), [&](Value v) { return elements(v) > elements(result); });
  if (reduces || llvm::any_of(op->getUsers(), [&](Operation *user) { return !isKernel(user); }) ||
      llvm::any_of(op->getUses(), readsWhole))
    return false;
  bool isShared = llvm::any_of(op->getUsers(), [&](Operation *user) { return user != *op->user_begin(); });
  return !(isShared && largeInputsOf(op).size() > 1) && inputsOf(op).size() <= mostInputs;
}

ArrayRef<Value> dtc::StoredValues::inputsOf(Operation *op) {
  if (auto known = inputs.find(op); known != inputs.end())
    return known->second;
  llvm::SmallSetVector<Value, 8> result;
  for (Value operand : op->getOperands())
    forEachInput(operand, [&](Value input) { result.insert(input); });
  return inputs[op] = result.getArrayRef().copy(storage);
}

SmallVector<Value> dtc::StoredValues::largeInputsOf(Operation *op) {
  int64_t size = elements(op->getResult(0));
  return llvm::filter_to_vector(inputsOf(op), [&](Value input) { return isLarge(elements(input), size); });
}

void dtc::StoredValues::forEachInput(Value value, function_ref<void(Value)> visit) {
  Operation *op = value.getDefiningOp();
  if (!op || !isLight(op))
    return visit(value);
  llvm::for_each(inputsOf(op), visit);
}
