// Deferral of partial sums.
#include "passes/place/Deferral.h"
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "passes/place/Attributes.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

Iteration placedIteration(FactorOpInterface op, const AxisTable &axes, LoopTable &loops) {
  Iteration iteration(loops.of(op));
  iteration.splitAs(axes.placementOf(op->getAttrOfType<ShardingAttr>(iterationAttr)));
  return iteration;
}

bool takesPartialArgument(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    auto argument = dyn_cast<BlockArgument>(operand);
    return argument && portOf(argument).getMayBePartial();
  });
}

/// Whether all results are partial sums whatever the operands are.
bool makesPartialSums(const Iteration &iteration) {
  for (size_t result = 0; result < iteration.rule.results.size(); ++result)
    if (Partials partial = iteration.partialOf(result); !partial.mask() || !partial.areLinear())
      return false;
  return true;
}

/// Whether some result is partial in a way that linear operations do not keep.
bool makesNonlinearPartials(const Iteration &iteration) {
  for (size_t result = 0; result < iteration.rule.results.size(); ++result)
    if (!iteration.partialOf(result).areLinear())
      return true;
  return false;
}

bool resultsAccumulate(Operation *op, Accumulations &accumulations) {
  return llvm::all_of(op->getResults(),
                      [&](Value result) { return result.hasOneUse() && accumulations.contains(*result.use_begin()); });
}

/// Whether a use of a partial sum with several uses passes it on at no cost.
bool absorbs(OpOperand &use, AtomMask mask, const AxisTable &axes, LoopTable &loops, Accumulations &accumulations) {
  Operation *user = use.getOwner();
  auto factorOp = dyn_cast<FactorOpInterface>(user);
  if (!factorOp)
    return accumulations.contains(use);
  if (factorOp.getLinearity(use.getOperandNumber()) != Linearity::Multilinear ||
      llvm::count(user->getOperands(), use.get()) > 1)
    return false;
  Iteration iteration = placedIteration(factorOp, axes, loops);
  return !(iteration.usedMask() & mask) && !makesNonlinearPartials(iteration) &&
         (makesPartialSums(iteration) || resultsAccumulate(user, accumulations));
}

double localBytesOf(const AxisTable &axes, RankedTensorType type, const Placement &placement) {
  return static_cast<double>(mlir::dt::bytesOf(axes.localType(type, placement)));
}

class Decider {
public:
  Decider(FactorOpInterface op, Iteration &iteration, const AxisTable &axes, LocalValues &values,
          Accumulations &accumulations)
      : op(op), iteration(iteration), axes(axes), loops(values.getLoops()), accumulations(accumulations) {
    deferral.operands.assign(op->getNumOperands(), false);
    for (OpOperand &operand : op->getOpOperands()) {
      pending.push_back(values.pendingSum(operand.get()).mask());
      linearity.push_back(op.getLinearity(operand.getOperandNumber()));
    }
  }

  Deferral decide() {
    if (!decideAdditive())
      decideMultilinear();
    keepAdditionsWhole();
    return deferral;
  }

private:
  /// A term that lacks a split reduction factor would be counted once on every rank. Unless it is zero or itself
  /// partial, the factor stays whole.
  void keepAdditionsWhole() {
    if (deferral.mask)
      return;
    for (auto [factor, info] : llvm::enumerate(iteration.rule.factors)) {
      if (info.kind != FactorKind::Reduction || iteration.atoms[factor].empty())
        continue;
      for (auto [i, dims] : llvm::enumerate(iteration.rule.operands))
        if (linearity[i] == Linearity::Additive && !Iteration::contains(dims, factor) && !isZero(i))
          iteration.atoms[factor].clear();
    }
  }

  bool isZero(unsigned operand) { return isSplat(op->getOperand(operand), 0); }

  /// Defers all terms alike, or none.
  bool decideAdditive() {
    AtomMask mask = 0, reduced = 0;
    bool any = false;
    for (unsigned i = 0; i < pending.size(); ++i) {
      if (linearity[i] != Linearity::Additive || isZero(i))
        continue;
      if (pending[i] && !op->getOperand(i).hasOneUse())
        return false;
      AtomMask sums = reducedMask(iteration.rule.operands[i]);
      if ((sums & pending[i]) || (any && (sums | pending[i]) != mask))
        return false;
      mask = sums | pending[i];
      reduced |= sums;
      any = true;
    }
    // What is partial anyway may not also split a dimension, except one that the operation itself sums over.
    AtomMask pendingOnly = mask & ~reduced;
    if (!any || !mask || makesNonlinearPartials(iteration) || (reduced && (pendingOnly & iteration.usedMask())))
      return false;
    iteration.drop(pendingOnly);
    deferral.mask = mask;
    for (unsigned i = 0; i < pending.size(); ++i)
      deferral.operands[i] = pending[i] && linearity[i] == Linearity::Additive;
    return true;
  }

  /// The axes that split the reduction factors among these dimensions.
  AtomMask reducedMask(const DimFactors &dims) {
    AtomMask mask = 0;
    for (auto [factor, info] : llvm::enumerate(iteration.rule.factors))
      if (info.kind == FactorKind::Reduction && Iteration::contains(dims, factor))
        mask |= maskOf(iteration.atoms[factor]);
    return mask;
  }

  void decideMultilinear() {
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned i = operand.getOperandNumber();
      if (!pending[i] || linearity[i] != Linearity::Multilinear || !passes(operand.get(), i))
        continue;
      deferral.mask = pending[i];
      deferral.operands[i] = true;
      return;
    }
  }

  bool passes(Value value, unsigned operand) {
    AtomMask mask = pending[operand];
    if ((iteration.usedMask() & mask) || makesNonlinearPartials(iteration))
      return false;
    if (!value.hasOneUse())
      return llvm::all_of(value.getUses(),
                          [&](OpOperand &use) { return absorbs(use, mask, axes, loops, accumulations); });
    if (makesPartialSums(iteration) || resultsAccumulate(op, accumulations))
      return true;
    double before = localBytesOf(axes, cast<RankedTensorType>(value.getType()),
                                 iteration.placementOf(iteration.rule.operands[operand]));
    double after = 0;
    for (auto [result, dims] : llvm::zip_equal(op->getResults(), iteration.rule.results))
      after += localBytesOf(axes, cast<RankedTensorType>(result.getType()), iteration.placementOf(dims));
    return after <= before;
  }

  FactorOpInterface op;
  Iteration &iteration;
  const AxisTable &axes;
  LoopTable &loops;
  Accumulations &accumulations;
  Deferral deferral;
  SmallVector<AtomMask> pending;
  SmallVector<Linearity> linearity;
};
} // namespace

bool Accumulations::contains(OpOperand &use) {
  Operation *user = use.getOwner();
  if (user->hasTrait<OpTrait::IsTerminator>())
    return resultPort(cast<func::FuncOp>(user->getParentOp()), use.getOperandNumber()).getMayBePartial();
  auto factorOp = dyn_cast<FactorOpInterface>(user);
  if (!factorOp || factorOp.getLinearity(use.getOperandNumber()) != Linearity::Additive)
    return false;
  auto [known, isNew] = takePartialArguments.try_emplace(user);
  if (isNew)
    known->second = takesPartialArgument(user);
  return known->second;
}

Deferral dtc::decideDeferral(FactorOpInterface op, Iteration &iteration, const AxisTable &axes, LocalValues &values,
                             Accumulations &accumulations) {
  return Decider(op, iteration, axes, values, accumulations).decide();
}
