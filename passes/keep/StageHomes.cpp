// On which stages of a pipeline each value of a function is computed.
#include "passes/keep/StageHomes.h"

#include "dialect/IR/Factors.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

static Direction directionOf(Operation *op) {
  DirectionAttr direction = marksOf(op).direction;
  return direction ? direction.getValue() : Direction::Forward;
}

bool isForward(Operation *op) { return directionOf(op) == Direction::Forward; }

bool isUpdate(Operation *op) { return directionOf(op) == Direction::Update; }

static StageSet lowest(StageSet stages) { return stages & (~stages + 1); }
static StageSet highest(StageSet stages) { return stages == 0 ? 0 : StageSet(1) << llvm::Log2_64(stages); }

/// The linearity in a partial operand. Collectives that add or move do so with each summand.
static Linearity linearityOf(Operation *op, unsigned operand) {
  if (auto rule = dyn_cast<FactorOpInterface>(op))
    return rule.getLinearity(operand);
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  bool isLinear = collective ? collective.isLinear() : isa<ShardSliceOp>(op);
  return isLinear ? Linearity::Multilinear : Linearity::Nonlinear;
}

/// Whether the operands that stages have are added up; each stage makes the other operands itself.
static bool isAdditive(Operation *op, ArrayRef<Home> operands) {
  return llvm::all_of(llvm::enumerate(operands), [&](const auto &operand) {
    return operand.value().isOnDemand() || linearityOf(op, operand.index()) == Linearity::Additive;
  });
}

/// What an argument is to a reader: the update runs on the stages that have a parameter, with what all know.
Home StageHomes::homeOfArgument(PortAttr port, Direction reader) const {
  Home home;
  if (port.getKind() == PortKind::Gradient) {
    home.stages = gradients.lookup(port.getName());
    home.partial = !llvm::has_single_bit(home.stages);
    return home;
  }
  home.ofState = port.isOfParameter();
  home.ofInput = !home.ofState && port.getKind() != PortKind::Share;
  if (reader == Direction::Update)
    home.stages = port.isOfParameter() ? parameters.lookup(port.getName()) : cut.all();
  return home;
}

Home StageHomes::of(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? homeOfArgument(portOf(argument), Direction::WeightGradient) : of(value.getDefiningOp());
}

/// Once a value is exchanged, everything after the passes reads the exchanged value.
Home StageHomes::homeFor(OpOperand &operand, Direction reader) {
  if (auto argument = dyn_cast<BlockArgument>(operand.get()))
    return homeOfArgument(portOf(argument), reader);
  Home home = of(operand.get().getDefiningOp());
  if (StageSet stages = exchangedOver(operand.get()); stages != 0 && reader == Direction::Update) {
    fromExchange.insert(&operand);
    return {stages};
  }
  if (home.isOnDemand() && reader == Direction::Update)
    home.stages = cut.all();
  return home;
}

/// Whether an operation adds to, or makes, what is handed from micro-batch to micro-batch or to the host: only one
/// stage has that, the last.
static bool isTold(Operation *op) {
  for (Value operand : op->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(operand); argument && portOf(argument).getKind() == PortKind::Share)
      return true;
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
}

Home StageHomes::placeOnDemand(Operation *op, ArrayRef<Home> operands) const {
  Home home;
  if (isTold(op))
    return {highest(cut.all())};
  for (const Home &operand : operands) {
    home.ofState |= operand.ofState;
    home.ofInput |= operand.ofInput;
  }
  if (home.ofState && home.ofInput) { // an embedding, whose rows tokens choose
    LayerAttr layer = marksOf(op).layer;
    home.stages = StageSet(1) << (layer ? cut.stageOf.lookup(layer) : 0);
  }
  return home;
}

/// The stages that have all operands; or, for a sum, those that have them together.
FailureOr<Home> StageHomes::join(Operation *op, ArrayRef<Home> operands) {
  StageSet common = cut.all(), any = 0;
  bool hasPartial = false, isLinear = true;
  for (auto [index, operand] : llvm::enumerate(operands)) {
    if (operand.isOnDemand())
      continue;
    any |= operand.stages;
    if (!operand.partial)
      common &= operand.stages;
    hasPartial |= operand.partial;
    isLinear &= !operand.partial || linearityOf(op, index) != Linearity::Nonlinear;
  }
  bool adds = isAdditive(op, operands);
  Home home;
  home.stages = any;
  home.partial = true;
  if ((hasPartial && isLinear && (adds || common == cut.all())) || (!hasPartial && common == 0 && adds))
    return home;
  for (auto [operand, use] : llvm::zip_equal(operands, op->getOpOperands()))
    if (operand.partial) {
      exchanged[use.get()] = operand.stages;
      fromExchange.insert(&use);
      common &= operand.stages;
    }
  if (common == 0)
    return op->emitError(
        "reads values that no single stage of the pipeline has, and is not a sum; cut the model elsewhere");
  home.stages = common;
  home.partial = false;
  return home;
}

FailureOr<Home> StageHomes::placeOperation(Operation *op) {
  Direction direction = directionOf(op);
  SmallVector<Home> operands;
  for (OpOperand &operand : op->getOpOperands())
    operands.push_back(homeFor(operand, direction));
  if (direction == Direction::Update)
    return join(op, operands);
  if (llvm::all_of(operands, [](const Home &home) { return home.isOnDemand(); }))
    return placeOnDemand(op, operands);
  bool hasPartial = llvm::any_of(operands, [](const Home &home) { return home.partial; });
  LayerAttr layer = marksOf(op).layer;
  if (layer && !hasPartial)
    return Home{StageSet(1) << cut.stageOf.lookup(layer)};
  StageSet forward = 0, backward = 0;
  for (auto [home, value] : llvm::zip_equal(operands, op->getOperands()))
    (value.getDefiningOp() && !isForward(value.getDefiningOp()) ? backward : forward) |= home.stages;
  bool severalHave = !llvm::has_single_bit(forward | backward);
  if (direction == Direction::WeightGradient && (hasPartial || (severalHave && isAdditive(op, operands))))
    return join(op, operands);
  return Home{backward == 0 ? highest(forward) : lowest(backward)};
}

/// What all ranks report to the host is needed on all stages; a gradient, on those that have a summand.
void StageHomes::exchangeReturned(Operation *op) {
  Home home = of(op);
  if (home.isOnDemand())
    return;
  for (OpResult result : op->getResults())
    for (OpOperand &use : result.getUses()) {
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        continue;
      PortAttr port = resultPort(use.getOwner()->getParentOfType<func::FuncOp>(), use.getOperandNumber());
      if (port.getKind() == PortKind::Output && (home.partial || home.stages != cut.all()))
        exchanged[result] = cut.all();
      else if (port.getKind() == PortKind::ReducedGradient && home.partial)
        exchanged[result] = home.stages;
      else
        continue;
      fromExchange.insert(&use);
    }
}

LogicalResult StageHomes::place(func::FuncOp function) {
  for (Operation &op : function.front().without_terminator()) {
    FailureOr<Home> home = placeOperation(&op);
    if (failed(home))
      return failure();
    homes[&op] = *home;
    exchangeReturned(&op);
  }
  for (OpOperand &result : function.front().getTerminator()->getOpOperands())
    if (PortAttr port = resultPort(function, result.getOperandNumber());
        port.getKind() == PortKind::Gradient && result.get().getDefiningOp())
      gradients[port.getName()] = of(result.get().getDefiningOp()).stages;
  return success();
}

} // namespace dtc
