// Builds @micro: the loss and its gradients.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"
#include "runtime/abi/outputs.h"

namespace dtc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {


/// The backward pass of one straight-line function, appended to it.
class Backward {
public:
  explicit Backward(func::FuncOp function)
      : block(function.getBody().front()), builder(block.getTerminator(), &listener) {
    markAll(function, dt::Direction::Forward);
    for (Operation &op : block.without_terminator())
      forward.push_back(&op);
  }

  /// Marks the values that depend on `roots`: only these need gradients.
  void activate(ArrayRef<Value> roots);
  /// The gradient of `result` is `scale`, or 1 where there is none.
  void seed(Value result, Value scale);
  LogicalResult run();
  /// The sum of the gradients that reached a value; zeros where none did.
  Value getGradient(Value value);
  /// Distinguishes the gradients that earlier layers wait for from those for which only the end of the step waits.
  void markDirections(ArrayRef<BlockArgument> parameters);

private:
  LogicalResult visit(Operation *op);
  void accumulate(Value value, Value gradient);

  Block &block;
  PurposeListener listener;
  OpBuilder builder;
  SmallVector<Operation *> forward;
  DenseSet<Value> active;
  DenseMap<Value, Value> gradients;
};

void Backward::activate(ArrayRef<Value> roots) {
  active.insert(roots.begin(), roots.end());
  for (Operation *op : forward)
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return active.contains(operand); }))
      for (Value result : op->getResults())
        if (dt::hasFloats(result))
          active.insert(result);
}

void Backward::seed(Value result, Value scale) {
  auto type = cast<RankedTensorType>(result.getType());
  gradients[result] = scale ? scale : dt::ConstantOp::create(builder, result.getLoc(), type, 1.0);
}

LogicalResult Backward::run() {
  for (Operation *op : llvm::reverse(forward))
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult Backward::visit(Operation *op) {
  SmallVector<Value> ofResults = llvm::map_to_vector(
      op->getResults(), [&](Value result) { return active.contains(result) ? gradients.lookup(result) : Value(); });
  if (llvm::none_of(ofResults, [](Value gradient) { return static_cast<bool>(gradient); }))
    return success();
  auto differentiable = dyn_cast<dt::DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitOpError("cannot be differentiated: it does not implement DifferentiableOpInterface");

  listener.setMarks({dt::marksOf(op).layer, {}});
  listener.setPurpose((purposeOf(op) + "_backward").str());
  SmallVector<Value> ofOperands;
  if (failed(differentiable.buildGradient(builder, ofResults, ofOperands)))
    return failure();
  if (ofOperands.size() != op->getNumOperands())
    return op->emitOpError("buildGradient gave ")
           << ofOperands.size() << " gradients for " << op->getNumOperands() << " operands";
  for (auto [operand, gradient] : llvm::zip(op->getOperands(), ofOperands))
    if (gradient && active.contains(operand))
      accumulate(operand, gradient);
  return success();
}

void Backward::accumulate(Value value, Value gradient) {
  Value &sum = gradients[value];
  sum = sum ? dt::AddOp::create(builder, gradient.getLoc(), sum, gradient) : gradient;
}

Value Backward::getGradient(Value value) {
  if (Value gradient = gradients.lookup(value))
    return gradient;
  return dt::ConstantOp::create(builder, value.getLoc(), cast<RankedTensorType>(value.getType()), 0.0);
}

void Backward::markDirections(ArrayRef<BlockArgument> parameters) {
  // What is made only from parameters and constants is still a weight: its gradient is a weight's.
  DenseSet<Value> activations(block.getArguments().begin(), block.getArguments().end());
  for (BlockArgument parameter : parameters)
    activations.erase(parameter);
  for (Operation *op : forward)
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return activations.contains(operand); }))
      activations.insert(op->result_begin(), op->result_end());
  DenseSet<Operation *> awaited;
  auto await = [&](Value gradient) {
    if (Operation *producer = gradient.getDefiningOp())
      awaited.insert(producer);
  };
  for (auto [value, gradient] : gradients)
    if (activations.contains(value))
      await(gradient);
  auto directed = [&](dt::Direction direction) {
    return dt::DirectionAttr::get(block.getParentOp()->getContext(), direction);
  };
  dt::DirectionAttr ofInput = directed(dt::Direction::InputGradient),
                    ofWeight = directed(dt::Direction::WeightGradient);
  dt::Marker marker;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (!forward.empty() && &op == forward.back())
      return;
    bool isAwaited = awaited.contains(&op);
    marker.mark(&op, {{}, isAwaited ? ofInput : ofWeight});
    if (isAwaited)
      llvm::for_each(op.getOperands(), await);
  }
}

/// Erases what has no users: gradients of operands that need none.
void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct Differentiate : dtc::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    func::FuncOp loss = requireFunction(getOperation(), dt::function::loss);
    if (!loss)
      return signalPassFailure();
    if (asynchronous && scaled) {
      getOperation().emitError("pipedream updates each stage by itself: a loss scale, which f16 needs, would make "
                               "stages wait for each other; "
                               "compute in bf16 or f32, and let gradients travel so");
      return signalPassFailure();
    }
    std::optional<unsigned> lossIndex = findOutput(loss, abi::output::lossSum.name),
                            countIndex = findOutput(loss, abi::output::tokenCount.name);
    if (!lossIndex || !countIndex) {
      loss.emitError("@loss must have the outputs \"loss_sum\" and \"token_count\"");
      return signalPassFailure();
    }
    OpBuilder builder(loss);
    builder.setInsertionPointAfter(loss);
    auto micro = cast<func::FuncOp>(builder.clone(*loss));
    micro.setName(dt::function::micro);
    micro->setLoc(NameLoc::get(builder.getStringAttr(dt::function::micro)));
    if (failed(appendGradients(micro, *lossIndex, *countIndex)))
      return signalPassFailure();
    eraseDead(micro.getBody().front());
  }

  /// The input by which all gradients are multiplied.
  Value addScale(func::FuncOp micro) {
    dt::PortAttr port = inputPort(&getContext(), dt::SourceKind::LossScale);
    unsigned index = micro.getNumArguments();
    (void)micro.insertArgument(index, RankedTensorType::get({}, Float32Type::get(&getContext())), portAttributes(port),
                               NameLoc::get(port.getName()));
    return micro.getArgument(index);
  }

  LogicalResult appendGradients(func::FuncOp micro, unsigned lossIndex, unsigned countIndex) {
    SmallVector<BlockArgument> parameters;
    SmallVector<StringRef> names;
    for (auto [index, argument] : llvm::enumerate(micro.getArguments()))
      if (dt::PortAttr port = dt::argumentPort(micro, index); port && port.getKind() == dt::PortKind::Parameter) {
        parameters.push_back(argument);
        names.push_back(port.getName());
      }
    Operation *terminator = micro.getBody().front().getTerminator();
    Value lossSum = terminator->getOperand(lossIndex), tokenCount = terminator->getOperand(countIndex);

    Backward backward(micro);
    backward.activate(llvm::to_vector_of<Value>(parameters));
    backward.seed(lossSum, scaled ? addScale(micro) : Value());
    if (failed(backward.run()))
      return failure();

    Results results;
    for (auto [sum, name] : {std::pair(lossSum, "micro_loss_sum"), std::pair(tokenCount, "micro_token_count")})
      asynchronous ? results.add(sum, dt::PortKind::Share, name) : results.addPartial(sum, dt::PortKind::Share, name);
    for (auto [parameter, name] : llvm::zip(parameters, names))
      results.addPartial(backward.getGradient(parameter), dt::PortKind::Gradient, name);
    backward.markDirections(parameters);
    terminator->erase();
    results.finish(micro);
    return success();
  }
};

} // namespace
