// Factors of the elementwise operations: one per dimension, shared by all operands and results.
#include "dialect/factors/Support.h"

using namespace mlir;
using namespace mlir::dt;

static FactorRule elementwiseRule(Operation *op) {
  FactorRule rule;
  DimFactors dims = addFactorPerDim(rule, tensorType(op->getResult(0)));
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(1, dims);
  return rule;
}

// The linearity of each operand, in order; operands beyond the list repeat the last entry.
#define DT_ELEMENTWISE_FACTORS(OP, ...)                                                                                \
  FactorRule OP::getFactorRule() { return elementwiseRule(getOperation()); }                                           \
  Linearity OP::getLinearity(unsigned operand) {                                                                       \
    constexpr Linearity table[] = {__VA_ARGS__};                                                                       \
    return table[std::min<size_t>(operand, std::size(table) - 1)];                                                     \
  }

DT_ELEMENTWISE_FACTORS(NegOp, Linearity::Multilinear)
DT_ELEMENTWISE_FACTORS(ExpOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(LogOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(SqrtOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(RsqrtOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(TanhOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(ErfOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(LogisticOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(GeluOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(GeluGradOp, Linearity::Multilinear, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(SiluOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(AddOp, Linearity::Additive)
DT_ELEMENTWISE_FACTORS(SubOp, Linearity::Additive)
DT_ELEMENTWISE_FACTORS(MulOp, Linearity::Multilinear)
DT_ELEMENTWISE_FACTORS(DivOp, Linearity::Multilinear, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(MaxOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(MinOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(AndOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(CompareOp, Linearity::Nonlinear)
DT_ELEMENTWISE_FACTORS(SelectOp, Linearity::Nonlinear, Linearity::Additive)

#undef DT_ELEMENTWISE_FACTORS

FactorRule ConvertOp::getFactorRule() { return elementwiseRule(getOperation()); }

/// Between floating-point types rounding is taken for the identity that it approximates, as the gradient does.
/// Conversions that truncate or test for zero are not linear: a sum of converted pieces is not the converted sum.
Linearity ConvertOp::getLinearity(unsigned) {
  bool rounds = isa<FloatType>(getOperand().getType().getElementType()) && isa<FloatType>(getType().getElementType());
  return rounds ? Linearity::Multilinear : Linearity::Nonlinear;
}

/// Operands of rank 0 have no dimension that could be split.
FactorRule ApplyOp::getFactorRule() {
  FactorRule rule;
  DimFactors dims = addFactorPerDim(rule, tensorType(getResults().front()));
  for (Value operand : getOperands())
    rule.operands.push_back(tensorType(operand).getRank() == 0 ? DimFactors() : dims);
  rule.results.assign(getNumResults(), dims);
  return rule;
}
