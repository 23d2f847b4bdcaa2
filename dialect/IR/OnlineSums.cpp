#include "dialect/IR/OnlineSums.h"

#include "dialect/IR/ElementTypes.h"

#include "mlir/IR/OperationSupport.h"

#include <limits>

namespace mlir::dt {

/// Whether both are computed alike from the same values.
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

/// Elements of which some may be left out.
struct Chosen {
  Value mask; ///< null: none is left out
  Value elements;
};

} // namespace

/// What is chosen, where `without` stands for the rest.
static Chosen chosenOf(Value value, double without) {
  if (auto select = value.getDefiningOp<SelectOp>())
    if (auto rest = select.getOnFalse().getDefiningOp<ConstantOp>(); rest && rest.getSplat() == without)
      return {select.getMask(), select.getOnTrue()};
  return {Value(), value};
}

static bool reduces(ReductionOpInterface op, ReductionKind kind) {
  return op.getReductionKind() == kind && elementTypeOf(op->getOperand(0).getType()).type == dtc::abi::F32;
}

std::optional<OnlineSum> findOnlineSum(ReductionOpInterface sum) {
  if (!reduces(sum, ReductionKind::Sum))
    return std::nullopt;
  Chosen terms = chosenOf(sum->getOperand(0), 0);
  auto exponential = terms.elements.getDefiningOp<ExpOp>();
  auto difference = exponential ? exponential.getOperand().getDefiningOp<SubOp>() : SubOp();
  auto base = difference ? difference.getRhs().getDefiningOp<BroadcastOp>() : BroadcastOp();
  auto maximum = base ? base.getOperand().getDefiningOp<ReductionOpInterface>() : ReductionOpInterface();
  if (!maximum || !reduces(maximum, ReductionKind::Max))
    return std::nullopt;
  Chosen compared = chosenOf(maximum->getOperand(0), -std::numeric_limits<double>::infinity());
  if (compared.elements != difference.getLhs() || bool(compared.mask) != bool(terms.mask) ||
      (terms.mask && !areAlike(compared.mask, terms.mask)))
    return std::nullopt;
  return OnlineSum{sum, maximum, base.getResult()};
}

} // namespace mlir::dt
