// The scalar functions of the elementwise operations, and their reference semantics: the function at every index.
//
// Masks and integers travel as doubles. NaN stands for poison in them (see Shards.h): it passes through integer
// comparisons, conjunctions and selects, so that a result that depends on undefined padding shows.
#include "dialect/IR/Ops.h"
#include "dialect/reference/Gelu.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::dt;

static constexpr double poison = std::numeric_limits<double>::quiet_NaN();

static double logistic(double x) { return 1 / (1 + std::exp(-x)); }

static double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
static double minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }

static bool compare(CompareDirection direction, double a, double b) {
  switch (direction) {
  case CompareDirection::EQ:
    return a == b;
  case CompareDirection::NE:
    return a < b || a > b; // ordered: false for NaN
  case CompareDirection::LT:
    return a < b;
  case CompareDirection::LE:
    return a <= b;
  case CompareDirection::GT:
    return a > b;
  case CompareDirection::GE:
    return a >= b;
  }
  llvm_unreachable("all directions are listed");
}

double NegOp::evaluateElement(ArrayRef<double> x) { return -x[0]; }
double ExpOp::evaluateElement(ArrayRef<double> x) { return std::exp(x[0]); }
double LogOp::evaluateElement(ArrayRef<double> x) { return std::log(x[0]); }
double SqrtOp::evaluateElement(ArrayRef<double> x) { return std::sqrt(x[0]); }
double RsqrtOp::evaluateElement(ArrayRef<double> x) { return 1 / std::sqrt(x[0]); }
double TanhOp::evaluateElement(ArrayRef<double> x) { return std::tanh(x[0]); }
double ErfOp::evaluateElement(ArrayRef<double> x) { return std::erf(x[0]); }
double LogisticOp::evaluateElement(ArrayRef<double> x) { return logistic(x[0]); }
double GeluOp::evaluateElement(ArrayRef<double> x) { return getTanh() ? geluTanh(x[0]) : geluErf(x[0]); }
double GeluGradOp::evaluateElement(ArrayRef<double> x) {
  return x[0] * (getTanh() ? geluTanhDerivative(x[1]) : geluErfDerivative(x[1]));
}
double SiluOp::evaluateElement(ArrayRef<double> x) { return x[0] * logistic(x[0]); }
double AddOp::evaluateElement(ArrayRef<double> x) { return x[0] + x[1]; }
double SubOp::evaluateElement(ArrayRef<double> x) { return x[0] - x[1]; }
double MulOp::evaluateElement(ArrayRef<double> x) { return x[0] * x[1]; }
double MaxOp::evaluateElement(ArrayRef<double> x) { return maximum(x[0], x[1]); }
double MinOp::evaluateElement(ArrayRef<double> x) { return minimum(x[0], x[1]); }

double DivOp::evaluateElement(ArrayRef<double> x) {
  double quotient = x[0] / x[1];
  return isa<FloatType>(getType().getElementType()) ? quotient : std::trunc(quotient);
}

double AndOp::evaluateElement(ArrayRef<double> x) {
  if (x[0] == 0 || x[1] == 0)
    return 0;
  return std::isnan(x[0]) || std::isnan(x[1]) ? poison : 1;
}

double CompareOp::evaluateElement(ArrayRef<double> x) {
  bool integers = !isa<FloatType>(getLhs().getType().getElementType());
  if (integers && (std::isnan(x[0]) || std::isnan(x[1])))
    return poison;
  return compare(getDirection(), x[0], x[1]);
}

double SelectOp::evaluateElement(ArrayRef<double> x) {
  if (std::isnan(x[0]))
    return poison;
  return x[0] != 0 ? x[1] : x[2];
}

double ConvertOp::evaluateElement(ArrayRef<double> x) {
  Type to = getType().getElementType();
  if (isa<FloatType>(to) || std::isnan(x[0])) // rounded by the interpreter, as every result is
    return x[0];
  return to.isInteger(1) ? x[0] != 0 : std::trunc(x[0]);
}

template <typename Op>
static LogicalResult evaluateEverywhere(Op op, ArrayRef<HostTensor> operands, SmallVectorImpl<HostTensor> &results) {
  HostTensor &result = results.emplace_back(op.getType().getShape());
  SmallVector<const double *, 3> from;
  for (const HostTensor &operand : operands)
    from.push_back(operand.elements->data());
  SmallVector<double, 3> element(operands.size());
  for (int64_t i = 0, size = result.size(); i < size; ++i) {
    for (size_t j = 0; j < from.size(); ++j)
      element[j] = from[j][i];
    result[i] = op.evaluateElement(element);
  }
  return success();
}

#define DT_EVALUATE_EVERYWHERE(Op)                                                                                     \
  LogicalResult Op::evaluate(ArrayRef<HostTensor> operands, const RankContext &,                                       \
                             SmallVectorImpl<HostTensor> &results) {                                                   \
    return evaluateEverywhere(*this, operands, results);                                                               \
  }
DT_EVALUATE_EVERYWHERE(NegOp)
DT_EVALUATE_EVERYWHERE(ExpOp)
DT_EVALUATE_EVERYWHERE(LogOp)
DT_EVALUATE_EVERYWHERE(SqrtOp)
DT_EVALUATE_EVERYWHERE(RsqrtOp)
DT_EVALUATE_EVERYWHERE(TanhOp)
DT_EVALUATE_EVERYWHERE(ErfOp)
DT_EVALUATE_EVERYWHERE(LogisticOp)
DT_EVALUATE_EVERYWHERE(GeluOp)
DT_EVALUATE_EVERYWHERE(GeluGradOp)
DT_EVALUATE_EVERYWHERE(SiluOp)
DT_EVALUATE_EVERYWHERE(AddOp)
DT_EVALUATE_EVERYWHERE(SubOp)
DT_EVALUATE_EVERYWHERE(MulOp)
DT_EVALUATE_EVERYWHERE(DivOp)
DT_EVALUATE_EVERYWHERE(MaxOp)
DT_EVALUATE_EVERYWHERE(MinOp)
DT_EVALUATE_EVERYWHERE(AndOp)
DT_EVALUATE_EVERYWHERE(CompareOp)
DT_EVALUATE_EVERYWHERE(SelectOp)
DT_EVALUATE_EVERYWHERE(ConvertOp)
#undef DT_EVALUATE_EVERYWHERE
