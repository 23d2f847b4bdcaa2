// On which stages of a pipeline each value of a function is computed.
#include "passes/keep/cut/StageHomes.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Factors.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

StageSet StageCut::ranksOf(StageSet of) const {
  StageSet set;
  for (int64_t stage = of.first(); stage <= of.last(); ++stage)
    if (of.contains(stage))
      set |= StageSet::of(rankOf[stage]);
  return set;
}

StageSet StageCut::stagesOf(int64_t rank) const {
  StageSet set;
  for (auto [stage, its] : llvm::enumerate(rankOf))
    if (its == rank)
      set |= StageSet::of(static_cast<int64_t>(stage));
  return set;
}

static Direction directionOf(Operation *op) {
  DirectionAttr direction = marksOf(op).direction;
  return direction ? direction.getValue() : Direction::Forward;
}

bool isForward(Operation *op) { return directionOf(op) == Direction::Forward; }

bool isUpdate(Operation *op) { return directionOf(op) == Direction::Update; }

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

/// What an argument is to a reader: the update runs on the ranks that have a parameter, with what all know.
Home StageHomes::homeOfArgument(PortAttr port, Direction reader) const {
  Home home;
  if (port.getKind() == PortKind::Gradient) {
    home.where = gradients.lookup(port.getName());
    home.partial = !home.where.hasOne();
    return home;
  }
  home.ofState = port.isOfParameter();
  home.ofInput = !home.ofState && port.getKind() != PortKind::Share;
  if (reader == Direction::Update)
    home.where = port.isOfParameter() ? cut.ranksOf(parameters.lookup(port.getName())) : cut.allRanks();
  return home;
}

Home StageHomes::of(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? homeOfArgument(portOf(argument), Direction::WeightGradient) : of(value.getDefiningOp());
}

bool StageHomes::comesBack(Value value) const {
  Operation *maker = cut.asynchronous ? value.getDefiningOp() : nullptr;
  return maker && isForward(maker) && !of(maker).isOnDemand() &&
         dutyOf(maker->getParentOfType<func::FuncOp>()).getTask() == Task::Both;
}

Home StageHomes::amongRanks(Value value) const {
  Home home = of(value);
  if (comesBack(value))
    return {StageSet::of(cut.rankOf.front())};
  if (Operation *maker = value.getDefiningOp(); !maker || isOfPasses(maker)) {
    home.where = cut.ranksOf(home.where);
    home.partial &= !home.where.hasOne(); // a rank adds up what its own stages have
  }
  return home;
}

/// Once a value is exchanged, everything after the passes reads the exchanged value.
Home StageHomes::homeFor(OpOperand &operand, Direction reader) {
  if (auto argument = dyn_cast<BlockArgument>(operand.get()))
    return homeOfArgument(portOf(argument), reader);
  if (reader != Direction::Update)
    return of(operand.get());
  if (StageSet ranks = exchangedOver(operand.get()); !ranks.isEmpty()) {
    fromExchange.insert(&operand);
    return {ranks};
  }
  Home home = amongRanks(operand.get());
  if (home.isOnDemand())
    home.where = cut.allRanks();
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
    return {StageSet::of(cut.stages() - 1)};
  for (const Home &operand : operands) {
    home.ofState |= operand.ofState;
    home.ofInput |= operand.ofInput;
  }
  if (home.ofState && home.ofInput) { // an embedding, whose rows tokens choose
    LayerAttr layer = marksOf(op).layer;
    home.where = StageSet::of(layer ? cut.stageOf.lookup(layer) : 0);
  }
  return home;
}

/// Those of `all` that have all operands; or, for a sum, those that have them together.
FailureOr<Home> StageHomes::join(Operation *op, ArrayRef<Home> operands, StageSet all) {
  StageSet common = all, any;
  bool hasPartial = false, isLinear = true;
  for (auto [index, operand] : llvm::enumerate(operands)) {
    if (operand.isOnDemand())
      continue;
    any |= operand.where;
    if (!operand.partial)
      common &= operand.where;
    hasPartial |= operand.partial;
    isLinear &= !operand.partial || linearityOf(op, index) != Linearity::Nonlinear;
  }
  bool adds = isAdditive(op, operands);
  Home home;
  home.where = any;
  home.partial = true;
  if ((hasPartial && isLinear && (adds || common == all)) || (!hasPartial && common.isEmpty() && adds))
    return home;
  for (auto [operand, use] : llvm::zip_equal(operands, op->getOpOperands()))
    if (operand.partial) {
      exchanged[use.get()] = operand.where;
      fromExchange.insert(&use);
      common &= operand.where;
    }
  if (common.isEmpty())
    return op->emitError(
        "reads values that no single stage of the pipeline has, and is not a sum; cut the model elsewhere");
  home.where = common;
  home.partial = false;
  return home;
}

/// A reduction over ranks of one stage, or a conversion: it is done as soon as the pass has the gradient.
bool StageHomes::isEarly(Operation *op) const {
  if (!isUpdate(op) || dutyOf(op->getParentOfType<func::FuncOp>()).getTask() == Task::Once)
    return false;
  auto isMade = [&](Value value) { return !of(value).isOnDemand(); };
  Value only;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isMade(operand.get()))
      continue;
    bool isLinear = linearityOf(op, operand.getOperandNumber()) != Linearity::Nonlinear;
    if (std::exchange(only, operand.get()) || (of(operand.get()).partial && !isLinear))
      return false;
  }
  if (!only || !only.getDefiningOp() || !isOfPasses(only.getDefiningOp()))
    return false;
  Direction made = directionOf(only.getDefiningOp());
  return made == Direction::WeightGradient || made == Direction::Update;
}

/// Whether an operation converts to a narrower type what nothing else reads.
static bool narrows(Operation *op) {
  return isa<ConvertOp>(op) && hasFloats(op->getOperand(0)) && hasFloats(op->getResult(0)) &&
         bytesOf(op->getResult(0).getType()) < bytesOf(op->getOperand(0).getType()) && op->getOperand(0).hasOneUse();
}

/// What the next stage of a pass only converts to a narrower type is converted where it is made, and crosses the cut in
/// that type. Then the conversion belongs to the layer of what it converts, and to the pass that hands on: of a split
/// backward pass, the one for the gradients of inputs.
void StageHomes::convertBeforeCut(Operation *op) const {
  Operation *maker = narrows(op) && !isUpdate(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  LayerAttr layer = marksOf(op).layer;
  if (!maker || !layer || isUpdate(maker) || isForward(maker) != isForward(op))
    return;
  Home home = of(maker);
  if (home.isOnDemand() || home.partial || !home.where.hasOne() || home.where.contains(cut.stageOf.lookup(layer)))
    return;
  op->setLoc(maker->getLoc());
  op->removeAttr(layerAttr);
  mark(op, {marksOf(maker).layer, {}});
  if (!isForward(op))
    op->setAttr(directionAttr, DirectionAttr::get(op->getContext(), Direction::InputGradient));
}

FailureOr<Home> StageHomes::placeOperation(Operation *op) {
  convertBeforeCut(op);
  Direction direction = directionOf(op);
  if (isEarly(op)) {
    early.insert(op);
    direction = Direction::WeightGradient;
  }
  SmallVector<Home> operands;
  for (OpOperand &operand : op->getOpOperands())
    operands.push_back(homeFor(operand, direction));
  if (direction == Direction::Update)
    return join(op, operands, cut.allRanks());
  if (llvm::all_of(operands, [](const Home &home) { return home.isOnDemand(); }))
    return placeOnDemand(op, operands);
  bool hasPartial = llvm::any_of(operands, [](const Home &home) { return home.partial; });
  LayerAttr layer = marksOf(op).layer;
  if (layer && !hasPartial)
    return Home{StageSet::of(cut.stageOf.lookup(layer))};
  StageSet forward, backward;
  for (auto [home, value] : llvm::zip_equal(operands, op->getOperands()))
    (value.getDefiningOp() && !isForward(value.getDefiningOp()) ? backward : forward) |= home.where;
  bool severalHave = !(forward | backward).hasOne();
  if (direction == Direction::WeightGradient && (hasPartial || (severalHave && isAdditive(op, operands))))
    return join(op, operands, cut.allStages());
  return Home{StageSet::of(backward.isEmpty() ? forward.last() : backward.first())};
}

/// What is reported to the host is needed on all ranks; a gradient, on those that have a summand. A rank that has
/// several adds them up there too.
void StageHomes::exchangeReturned(Operation *op) {
  Home home = of(op);
  if (home.isOnDemand())
    return;
  for (OpResult result : op->getResults())
    for (OpOperand &use : result.getUses()) {
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        continue;
      PortAttr port = resultPort(use.getOwner()->getParentOfType<func::FuncOp>(), use.getOperandNumber());
      Home ranks = amongRanks(result);
      if (port.getKind() == PortKind::Output && (ranks.partial || ranks.where != cut.allRanks()))
        exchanged[result] = cut.allRanks();
      else if (port.getKind() == PortKind::ReducedGradient && home.partial)
        exchanged[result] = ranks.where;
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
    if (PortAttr port = resultPort(function, result.getOperandNumber()); port.isGradient())
      if (Operation *maker = result.get().getDefiningOp(); maker && isOfPasses(maker))
        gradients[port.getName()] = of(maker).where;
  return success();
}

} // namespace dtc
