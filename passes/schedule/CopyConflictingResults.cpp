// Copies results that cannot be written straight into the tensor they are returned as; see Passes.td.
#include "passes/schedule/Passes.h"
#include "passes/schedule/Reads.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"

namespace dtc {
#define GEN_PASS_DEF_COPYCONFLICTINGRESULTS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {
/// Decides for each result of a function whether a copy is needed before the return.
struct ResultConflicts {
  ResultConflicts(func::FuncOp function, dtc::Kernels &kernels)
      : function(function), kernels(kernels), layouts(function) {
    for (BlockArgument argument : function.getArguments())
      arguments.try_emplace(argumentPort(function, argument.getArgNumber()).identity(), argument);
  }

  func::FuncOp function;
  dtc::Kernels &kernels;
  dtc::Layouts layouts;
  std::optional<dtc::Reads> reads; ///< needed in few functions
  DenseMap<PortIdentity, BlockArgument> arguments;
  DenseSet<Value> bound;

  bool needsCopy(Value value, PortIdentity identity) {
    const dtc::Place &place = layouts.placeOf(value);
    BlockArgument own = arguments.lookup(identity);
    if (!place.isWhole() || !bound.insert(place.root).second)
      return true;
    if (auto argument = dyn_cast<BlockArgument>(place.root)) {
      PortAttr held = argumentPort(function, argument.getArgNumber());
      return held.identity() != identity && (held.getKind() != PortKind::Gradient || own);
    }
    BlockArgument old = own ? own : gradientOf(identity, value.getType());
    if (!old)
      return false;
    if (!reads)
      reads.emplace(function, layouts);
    return readsOldContents(old, cast<OpResult>(place.root), *reads, layouts, kernels);
  }

  /// The argument whose memory a reduced gradient takes over.
  BlockArgument gradientOf(PortIdentity identity, Type type) const {
    if (identity.kind != PortKind::ReducedGradient)
      return {};
    BlockArgument gradient = arguments.lookup({PortKind::Gradient, identity.name, identity.slot});
    return gradient && gradient.getType() == type ? gradient : BlockArgument();
  }
};

/// Of a copy of what a stage hands on as it came, where ranks update before they exchange anything: a parameter, or
/// what goes back through all.
Marks marksOfPass(func::FuncOp function) {
  DutyAttr duty = dutyOf(function);
  Operation *module = function->getParentOp();
  if ((!module->hasAttr(module_attr::asynchronous) && !module->hasAttr(module_attr::earlyUpdate)) || !duty ||
      (duty.getTask() != Task::Forward && duty.getTask() != Task::Backward && duty.getTask() != Task::InputGradients))
    return {};
  Direction direction = duty.getTask() == Task::Forward ? Direction::Forward : Direction::InputGradient;
  return {{}, DirectionAttr::get(function.getContext(), direction)};
}

struct CopyConflictingResults : dtc::impl::CopyConflictingResultsBase<CopyConflictingResults> {
  void runOnOperation() override {
    dtc::Kernels kernels(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Operation *terminator = function.front().getTerminator();
      SmallVector<unsigned> copies;
      ResultConflicts conflicts(function, kernels);
      for (OpOperand &result : terminator->getOpOperands())
        if (conflicts.needsCopy(result.get(), resultPort(function, result.getOperandNumber()).identity()))
          copies.push_back(result.getOperandNumber());
      OpBuilder builder(terminator);
      for (unsigned index : copies) {
        Value value = terminator->getOperand(index);
        auto copy = CopyOp::create(builder, value.getLoc(), value);
        mark(copy, isa<BlockArgument>(value) ? marksOfPass(function) : marksOf(value));
        terminator->setOperand(index, copy);
      }
    }
  }
};

} // namespace
