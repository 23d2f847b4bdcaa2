// What applying a formula means: each of its operations in turn, at every index.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

/// A number as a tensor that holds it everywhere.
static HostTensor spread(const HostTensor &tensor, ArrayRef<int64_t> shape) {
  return tensor.shape.empty() ? HostTensor(shape, tensor[0]) : tensor;
}

static HostTensor evaluateAtEveryIndex(ElementwiseOpInterface op, ArrayRef<HostTensor> operands,
                                       ArrayRef<int64_t> shape, bool f64) {
  const dtc::abi::ElementType &type = elementTypeOf(op->getResult(0).getType());
  HostTensor result(shape);
  SmallVector<double> element(operands.size());
  for (int64_t i = 0, size = result.size(); i < size; ++i) {
    for (auto [value, operand] : llvm::zip_equal(element, operands))
      value = operand[i];
    double exact = op.evaluateElement(element);
    result[i] = f64 || !type.isFloating() ? exact : dtc::abi::roundTo(type, exact);
  }
  return result;
}

LogicalResult ApplyOp::evaluate(ArrayRef<HostTensor> operands, const RankContext &rank,
                                SmallVectorImpl<HostTensor> &results) {
  FormulaOp formula = lookUpFormula();
  DenseMap<Value, HostTensor> values;
  auto valuesOf = [&](ValueRange wanted) {
    return llvm::map_to_vector(wanted, [&](Value value) { return values.lookup(value); });
  };
  for (auto [argument, operand] : llvm::zip_equal(formula.getArguments(), operands))
    values[argument] = spread(operand, getShape());
  for (Operation &op : formula.getBody().front().without_terminator()) {
    SmallVector<HostTensor> computed;
    if (auto elementwise = dyn_cast<ElementwiseOpInterface>(op))
      computed.push_back(evaluateAtEveryIndex(elementwise, valuesOf(op.getOperands()), getShape(), rank.f64));
    else if (failed(cast<ReferenceOpInterface>(op).evaluate({}, rank, computed)))
      return failure();
    values[op.getResult(0)] = spread(computed.front(), getShape());
  }
  results = valuesOf(formula.getYield().getOperands());
  return success();
}
