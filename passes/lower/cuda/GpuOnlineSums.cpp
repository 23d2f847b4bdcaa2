#include "passes/lower/cuda/GpuOnlineSums.h"

#include "mlir/IR/OperationSupport.h"

#include <limits>

using namespace mlir;
using namespace dtc;

/// Whether both are computed alike from the same inputs of the kernel.
static bool areAlike(Value a, Value b) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  return left && right &&
         OperationEquivalence::isEquivalentTo(
             left, right, [](Value x, Value y) { return success(areAlike(x, y)); }, nullptr,
             OperationEquivalence::IgnoreLocations);
}

namespace {

/// Elements of a row, of which some may be left out.
struct Chosen {
  Value mask; ///< null: none is left out
  Value elements;
};

} // namespace

/// What is chosen, where `without` stands for the rest.
static Chosen chosenOf(Value value, double without) {
  if (auto select = value.getDefiningOp<dt::SelectOp>())
    if (auto rest = select.getOnFalse().getDefiningOp<dt::ConstantOp>(); rest && rest.getSplat() == without)
      return {select.getMask(), select.getOnTrue()};
  return {Value(), value};
}

static bool isReduction(dt::ReductionOpInterface op, dt::ReductionKind kind) {
  return op.getReductionKind() == kind && getElementTypeOrSelf(op->getOperand(0).getType()).isF32();
}

std::optional<OnlineSum> dtc::findOnlineSum(const KernelPlan &plan, dt::ReductionOpInterface sum) {
  if (plan.kind != KernelKind::Rows || !isReduction(sum, dt::ReductionKind::Sum))
    return std::nullopt;
  Chosen terms = chosenOf(sum->getOperand(0), 0);
  auto exponential = terms.elements.getDefiningOp<dt::ExpOp>();
  auto difference = exponential ? exponential.getOperand().getDefiningOp<dt::SubOp>() : dt::SubOp();
  auto base = difference ? difference.getRhs().getDefiningOp<dt::BroadcastOp>() : dt::BroadcastOp();
  auto maximum = base ? base.getOperand().getDefiningOp<dt::ReductionOpInterface>() : dt::ReductionOpInterface();
  if (!maximum || !plan.isReduction(maximum) || !isReduction(maximum, dt::ReductionKind::Max))
    return std::nullopt;
  Chosen compared = chosenOf(maximum->getOperand(0), -std::numeric_limits<double>::infinity());
  if (compared.elements != difference.getLhs() || bool(compared.mask) != bool(terms.mask) ||
      (terms.mask && !areAlike(compared.mask, terms.mask)))
    return std::nullopt;
  return OnlineSum{sum, maximum, base.getResult()};
}

SmallVector<OnlineSum> dtc::onlineSumsOf(const KernelPlan &plan, unsigned sweep) {
  SmallVector<OnlineSum> sums;
  for (auto [output, span, at] : llvm::zip_equal(plan.outputs, plan.outputSpans, plan.outputSweep))
    if (plan.hasColumns(span) && at == sweep)
      return {};
  for (auto [reduce, at] : llvm::zip_equal(plan.reductions, plan.reductionSweep)) {
    if (at != sweep)
      continue;
    std::optional<OnlineSum> sum = findOnlineSum(plan, reduce);
    if (!sum)
      return {};
    sums.push_back(*sum);
  }
  return sums;
}
