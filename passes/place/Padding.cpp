// Padding through operations.
#include "passes/place/Padding.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

bool dtc::isPaddedFactor(const Iteration &iteration, const AxisTable &axes, int factor) {
  return axes.isPadded(iteration.rule.factors[factor].size, iteration.atoms[factor]);
}

static bool hasPadding(const Iteration &iteration, const AxisTable &axes, const DimFactors &dims) {
  return llvm::any_of(dims, [&](ArrayRef<int> factors) {
    return !factors.empty() && isPaddedFactor(iteration, axes, factors.front());
  });
}

/// Masks whose padding is unknown may be either: the result is known if it is the same for both.
static std::optional<double> elementwisePadding(ElementwiseOpInterface op, ArrayRef<Version> operands) {
  SmallVector<double> values;
  SmallVector<size_t> unknown;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (!operand.padding) {
      if (!cast<RankedTensorType>(operand.value.getType()).getElementType().isInteger(1))
        return std::nullopt;
      unknown.push_back(i);
    }
    values.push_back(operand.padding.value_or(0));
  }
  std::optional<double> common;
  for (unsigned choice = 0; choice < (1u << unknown.size()); ++choice) {
    for (auto [bit, i] : llvm::enumerate(unknown))
      values[i] = (choice >> bit) & 1;
    double value = op.evaluateElement(values);
    if (common && *common != value)
      return std::nullopt;
    common = value;
  }
  return common;
}

std::optional<double> dtc::paddingOfResult(FactorOpInterface op, const Iteration &iteration, const AxisTable &axes,
                                           ArrayRef<Version> operands, unsigned result) {
  const FactorRule &rule = iteration.rule;
  if (!hasPadding(iteration, axes, rule.results[result]))
    return std::nullopt;
  if (auto elementwise = dyn_cast<ElementwiseOpInterface>(op.getOperation()))
    return elementwisePadding(elementwise, operands);
  for (auto [i, operand] : llvm::enumerate(operands))
    if (hasPadding(iteration, axes, rule.operands[i]) &&
        (op.getLinearity(i) == Linearity::Nonlinear || operand.padding != 0.0))
      return std::nullopt;
  for (ArrayRef<int> factors : rule.results[result]) {
    if (factors.empty() || !isPaddedFactor(iteration, axes, factors.front()))
      continue;
    bool fromOperand =
        llvm::any_of(rule.operands, [&](const DimFactors &dims) { return Iteration::contains(dims, factors.front()); });
    if (!fromOperand)
      return std::nullopt; // repeated into the padding
  }
  return 0;
}
