// Makes the last micro-batch and what follows it one function; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/StepFunctions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace dtc {
#define GEN_PASS_DEF_MERGEREDUCTION
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct MergeReduction : dtc::impl::MergeReductionBase<MergeReduction> {
  using MergeReductionBase::MergeReductionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto reduce = module.lookupSymbol<func::FuncOp>(function::reduce);
    StringRef lastOf = lastMicroBatch(accumulation > 1);
    auto micro = module.lookupSymbol<func::FuncOp>(lastOf);
    if (!reduce || !micro) {
      module.emitError("has no functions @")
          << lastOf << " and @" << function::reduce << " of a step of " << int64_t(accumulation) << " micro-batches";
      return signalPassFailure();
    }
    func::FuncOp last = accumulation > 2 ? cloneAfter(micro) : micro;
    last.setName(function::microLast);
    last->setLoc(NameLoc::get(StringAttr::get(&getContext(), function::microLast)));
    append(last, reduce);
    reduce.erase();
  }

  static func::FuncOp cloneAfter(func::FuncOp function) {
    OpBuilder builder(function->getContext());
    builder.setInsertionPointAfter(function);
    return cast<func::FuncOp>(builder.clone(*function));
  }

  /// What makes a gradient smaller (its conversion to the type in which it travels) is done where the backward pass has
  /// the gradient: otherwise all gradients would stay until the end, and none could be sent before.
  static void moveToOperand(Operation *op) {
    if (!isFusible(op) || op->getNumOperands() != 1 || op->getNumResults() != 1)
      return;
    Value operand = op->getOperand(0);
    Operation *producer = operand.getDefiningOp();
    if (producer && operand.hasOneUse() && bytesOf(op->getResult(0).getType()) <= bytesOf(operand.getType()))
      op->moveAfter(producer);
  }

  /// Continues `first` with the body of `second`. Ports identify what `second` takes: a result of the first, an
  /// argument of both, or a new argument.
  static void append(func::FuncOp first, func::FuncOp second) {
    Operation *end = first.front().getTerminator();
    DenseMap<PortIdentity, Value> handedOn;
    for (auto [index, value] : llvm::enumerate(end->getOperands()))
      handedOn[resultPort(first, index).identity()] = value;
    for (BlockArgument argument : first.getArguments())
      handedOn.try_emplace(argumentPort(first, argument.getArgNumber()).identity(), argument);
    IRMapping values;
    for (BlockArgument argument : second.getArguments()) {
      Value &value = handedOn[argumentPort(second, argument.getArgNumber()).identity()];
      if (!value) {
        unsigned index = first.getNumArguments();
        (void)first.insertArgument(index, argument.getType(), second.getArgAttrDict(argument.getArgNumber()),
                                   argument.getLoc());
        value = first.getArgument(index);
      }
      values.map(argument, value);
    }
    OpBuilder builder(end);
    SmallVector<Operation *> added;
    for (Operation &op : second.front())
      added.push_back(builder.clone(op, values));
    end->erase();
    llvm::for_each(added, moveToOperand);
    first.setFunctionType(FunctionType::get(first.getContext(), first.getArgumentTypes(), second.getResultTypes()));
    first.setAllResultAttrs(ArrayRef<DictionaryAttr>());
    SmallVector<DictionaryAttr> attributes;
    second.getAllResultAttrs(attributes);
    first.setAllResultAttrs(attributes);
  }
};

} // namespace
