// dt-store-narrow: stores parameters in the type that products read; see Passes.td.
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_STORENARROW
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

bool convertsTo(Operation *op, Type element) {
  return isa<dt::ConvertOp>(op) && getElementTypeOrSelf(op->getResult(0).getType()) == element;
}

/// Whether an operation only moves elements, so that it may as well move them in another type.
bool onlyMoves(Operation *op) {
  auto cost = dyn_cast<dt::CostOpInterface>(op);
  auto precision = dyn_cast<dt::PrecisionOpInterface>(op);
  return cost && precision && precision.getPrecision() == dt::Precision::AsOperands && op->getNumResults() == 1 &&
         cost.getFlops() == 0 && llvm::count_if(op->getOperands(), [](Value operand) {
                                   return isa<FloatType>(getElementTypeOrSelf(operand.getType()));
                                 }) == 1;
}

struct StoreNarrow : dtc::impl::StoreNarrowBase<StoreNarrow> {
  using StoreNarrowBase::StoreNarrowBase;

  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> functions = requireModel(getOperation());
    FailureOr<Type> type = parseFloatType(getOperation(), compute);
    if (failed(functions) || failed(type))
      return signalPassFailure();
    DenseSet<StringAttr> narrowed;
    for (func::FuncOp function : *functions)
      for (BlockArgument argument : function.getArguments())
        if (isParameter(argument) &&
            llvm::any_of(argument.getUsers(), [&](Operation *user) { return convertsTo(user, *type); }))
          narrowed.insert(dt::portOf(argument).getName());
    for (func::FuncOp function : *functions) {
      for (BlockArgument argument : function.getArguments())
        if (isParameter(argument) && narrowed.contains(dt::portOf(argument).getName()))
          store(argument, *type);
      function.setType(FunctionType::get(&getContext(), function.getBody().getArgumentTypes(),
                                         function.getFunctionType().getResults()));
    }
  }

  static bool isParameter(BlockArgument argument) {
    dt::PortAttr port = dt::portOf(argument);
    return port && port.getKind() == dt::PortKind::Parameter;
  }

  static void store(BlockArgument argument, Type element) {
    Type wide = getElementTypeOrSelf(argument.getType());
    argument.setType(cast<RankedTensorType>(argument.getType()).clone(element));
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses())) {
      Operation *op = use.getOwner();
      if (convertsTo(op, element)) {
        op->replaceAllUsesWith(ValueRange(argument));
        op->erase();
      } else if (onlyMoves(op)) {
        Value moved = op->getResult(0);
        moved.setType(cast<RankedTensorType>(moved.getType()).clone(element));
        Value widened = widen(moved, wide, op->getNextNode(), op);
        moved.replaceAllUsesExcept(widened, widened.getDefiningOp());
      } else {
        use.set(widen(argument, wide, op, op));
      }
    }
  }

  static Value widen(Value value, Type wide, Operation *before, Operation *madeFor) {
    OpBuilder builder(before);
    auto type = cast<RankedTensorType>(value.getType()).clone(wide);
    auto made = dt::ConvertOp::create(builder, madeFor->getLoc(), type, value);
    dt::mark(made, dt::marksOf(madeFor));
    return made;
  }
};

} // namespace
