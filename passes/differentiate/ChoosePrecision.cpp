// dt-choose-precision: the type that each operation of the model computes in; see Passes.td.
#include "dialect/IR/ElementTypes.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_CHOOSEPRECISION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {


/// One function's conversions. What is made only from parameters and constants has no type of its own yet: it takes the
/// type of what it meets, as does a bias that is added to a product.
class Chooser {
public:
  Chooser(func::FuncOp function, Type narrow)
      : function(function), builder(function.getContext()), narrow(narrow), wide(builder.getF32Type()) {
    for (BlockArgument argument : function.getArguments())
      if (dt::PortAttr port = dt::argumentPort(function, argument.getArgNumber());
          port && (port.getKind() == dt::PortKind::Parameter || isCache(port)))
        untyped.insert(argument);
  }

  void run() {
    Block &block = function.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      visit(&op);
    for (OpOperand &result : block.getTerminator()->getOpOperands())
      if (dt::hasFloats(result.get()) && !isCache(dt::resultPort(function, result.getOperandNumber())))
        result.set(convert(result.get(), wide, block.getTerminator()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    function.setType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  }

private:
  static bool isCache(dt::PortAttr port) { return port && port.getKind() == dt::PortKind::Cache; }

  void visit(Operation *op) {
    auto choice = dyn_cast<dt::PrecisionOpInterface>(op);
    if (isNarrow(op, choice)) {
      convertOperands(op, narrow);
      for (OpResult result : op->getResults())
        if (dt::hasFloats(result) && choice.narrowsResult(result.getResultNumber()))
          result.setType(cast<RankedTensorType>(result.getType()).clone(narrow));
      return;
    }
    convertOperands(op, wide);
    bool isMade = choice || op->getNumOperands() == 0;
    if (isMade && llvm::all_of(op->getOperands(), [&](Value value) { return untyped.contains(value); }))
      untyped.insert(op->result_begin(), op->result_end());
  }

  bool isNarrow(Operation *op, dt::PrecisionOpInterface choice) const {
    if (!choice || choice.getPrecision() == dt::Precision::Narrow)
      return static_cast<bool>(choice);
    bool any = false;
    for (Value operand : op->getOperands()) {
      if (!dt::hasFloats(operand) || untyped.contains(operand))
        continue;
      if (getElementTypeOrSelf(operand.getType()) != narrow)
        return false;
      any = true;
    }
    return any;
  }

  void convertOperands(Operation *op, Type element) {
    for (OpOperand &operand : op->getOpOperands())
      if (dt::hasFloats(operand.get()))
        operand.set(convert(operand.get(), element, op));
  }

  /// The value in that type, made before `user`, its first reader, and kept for later ones.
  Value convert(Value value, Type element, Operation *user) {
    if (getElementTypeOrSelf(value.getType()) == element)
      return value;
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && isCache(dt::argumentPort(function, argument.getArgNumber()))) {
      value.setType(cast<RankedTensorType>(value.getType()).clone(element)); // it holds what is written into it
      return value;
    }
    Value &known = converted[{value, element}];
    if (known)
      return known;
    builder.setInsertionPoint(user);
    auto type = cast<RankedTensorType>(value.getType()).clone(element);
    Operation *made;
    if (Operation *op = value.getDefiningOp(); op && untyped.contains(value) && op->getNumOperands() > 0) {
      // A parameter is converted before it is repeated or moved.
      SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
        return dt::hasFloats(operand) ? convert(operand, element, user) : operand;
      });
      builder.setInsertionPoint(user);
      made = dt::cloneOnto(op, builder, operands, type);
    } else {
      made = dt::ConvertOp::create(builder, value.getLoc(), type, value);
    }
    dt::mark(made, dt::marksOf(user));
    return converted[{value, element}] = made->getResult(0);
  }

  func::FuncOp function;
  OpBuilder builder;
  Type narrow, wide;
  DenseSet<Value> untyped;
  DenseMap<std::pair<Value, Type>, Value> converted;
};

struct ChoosePrecision : dtc::impl::ChoosePrecisionBase<ChoosePrecision> {
  using ChoosePrecisionBase::ChoosePrecisionBase;

  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> functions = requireModel(getOperation());
    FailureOr<Type> type = parseFloatType(getOperation(), compute);
    if (failed(functions) || failed(type))
      return signalPassFailure();
    if (*type != Builder(&getContext()).getF32Type())
      for (func::FuncOp function : *functions)
        Chooser(function, *type).run();
  }
};

} // namespace
