// The functions that one function of a step becomes when it is cut.
#include "passes/keep/StageFunctions.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/analysis/GatheredState.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

static int64_t lowestOf(StageSet stages) { return llvm::countr_zero(stages); }
static bool contains(StageSet stages, int64_t stage) { return (stages >> stage) & 1; }

StageFunctions::StageFunctions(func::FuncOp original, const StageCut &cut, const StageHomes &homes,
                               ParameterStages &parameters)
    : original(original), duty(dutyOf(original)), cut(cut), homes(homes), parameters(parameters) {}

StageFunctions::Part &StageFunctions::partOf(int64_t stage, Pass pass) {
  if (!hasPasses())
    pass = Forward;
  auto [entry, isNew] = parts.try_emplace({stage, pass});
  Part &part = entry->second;
  if (!isNew)
    return part;
  OpBuilder builder(original);
  std::string name = original.getName().str() + (hasPasses() ? pass == Forward ? ".forward" : ".backward" : "") + "." +
                     std::to_string(stage);
  part.function =
      func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name, builder.getFunctionType({}, {}));
  part.function.addEntryBlock();
  Task task = hasPasses() ? pass == Forward ? Task::Forward : Task::Backward : duty.getTask();
  part.function->setAttr(dutyAttr,
                         DutyAttr::get(builder.getContext(), task, stage, duty.getTimetable(), duty.getMicroBatches()));
  return part;
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

/// The name is the value's place in the model; values with the same place are numbered.
StringAttr StageFunctions::nameOf(Value value) {
  StringAttr &name = names[value];
  if (!name) {
    std::string place = placeOf(value.getLoc());
    int number = uses[place]++;
    name = StringAttr::get(value.getContext(), number == 0 ? place : place + "#" + std::to_string(number));
  }
  return name;
}

static PortAttr portIn(DictionaryAttr attributes) { return cast<PortAttr>(attributes.get(portAttr)); }

Value StageFunctions::addArgument(Part &part, Type type, DictionaryAttr attributes, Location loc) {
  Value &argument = part.arguments[portIn(attributes).identity()];
  if (!argument) {
    unsigned index = part.function.getNumArguments();
    (void)part.function.insertArgument(index, type, attributes, loc);
    argument = part.function.getArgument(index);
  }
  return argument;
}

/// Takes what another part hands on.
Value StageFunctions::takeOver(Part &part, Value value, PortKind kind) {
  PortAttr port = PortAttr::get(value.getContext(), kind, nameOf(value).getValue());
  return addArgument(part, value.getType(), portAttributes(port), value.getLoc());
}

void StageFunctions::addResult(Part &part, Value value, DictionaryAttr attributes) {
  if (!part.returned.insert(portIn(attributes).identity()).second)
    return;
  part.results.push_back(value);
  part.resultAttributes.push_back(attributes);
}

void StageFunctions::handOn(Part &part, Value value, Value of, PortKind kind) {
  addResult(part, value, portAttributes(PortAttr::get(of.getContext(), kind, nameOf(of).getValue())));
}

//===----------------------------------------------------------------------===//
// Where the values that a pass reads come from
//===----------------------------------------------------------------------===//

/// The value of the original function, in a part.
FailureOr<Value> StageFunctions::get(Value value, int64_t stage, Pass pass) {
  Part &part = partOf(stage, pass);
  if (Value known = part.values.lookup(value))
    return known;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned index = argument.getArgNumber();
    PortAttr port = argumentPort(original, index);
    if (hasPasses() && (port.getKind() == PortKind::Parameter || port.getKind() == PortKind::Copy))
      parameters[port.getName()] |= StageSet(1) << stage;
    return part.values[value] = addArgument(part, value.getType(), original.getArgAttrDict(index), argument.getLoc());
  }
  if (homes.of(value.getDefiningOp()).isOnDemand()) {
    if (failed(clone(value.getDefiningOp(), stage, pass)))
      return failure();
    return part.values.lookup(value);
  }
  FailureOr<Value> found = getFromElsewhere(value, stage, pass);
  if (failed(found))
    return failure();
  return part.values[value] = *found;
}

FailureOr<Value> StageFunctions::getFromElsewhere(Value value, int64_t stage, Pass pass) {
  Operation *maker = value.getDefiningOp();
  StageSet has = homes.of(maker).stages;
  Pass made = passOf(maker);
  if (contains(has, stage) && made == Forward && pass == Backward)
    return getFromForward(value, stage);
  if (has >> stage == 0) { // made before: it came along in the forward pass
    if (made == Forward && pass == Backward)
      return getFromForward(value, stage);
    if (made == Forward)
      return getFromNeighbour(value, stage, stage - 1, Forward);
  } else if (!contains(has, stage) && pass == Backward) {
    return getFromNeighbour(value, stage, stage + 1, Backward);
  }
  return maker->emitError("what stage ") << llvm::Log2_64(has) << " of the pipeline makes here is needed by stage "
                                         << stage << ", which has run by then; cut the model elsewhere";
}

/// Whether a kernel that reads the value makes it on the way from one stored tensor that is no larger, such as by
/// adding a bias. Then that tensor is kept, which others may read too.
bool StageFunctions::isMadeOnTheWay(Operation *maker) {
  if (!stored.isLight(maker))
    return false;
  SmallVector<Value> inputs = stored.largeInputsOf(maker);
  return inputs.size() == 1 && bytesOf(inputs.front().getType()) <= bytesOf(maker->getResult(0).getType());
}

/// Views, and what is made on the way, are made again: what they are made from is kept.
FailureOr<Value> StageFunctions::getFromForward(Value value, int64_t stage) {
  Operation *maker = value.getDefiningOp();
  if (contains(homes.of(maker).stages, stage) && (isView(maker) || isMadeOnTheWay(maker))) {
    if (failed(clone(maker, stage, Backward)))
      return failure();
    Value again = partOf(stage, Backward).values.lookup(value);
    if (!isView(maker))
      again.getDefiningOp()->setAttr(directionAttr, DirectionAttr::get(maker->getContext(), Direction::InputGradient));
    return again;
  }
  FailureOr<Value> kept = get(value, stage, Forward);
  if (failed(kept))
    return failure();
  Part &backward = partOf(stage, Backward);
  if (auto argument = dyn_cast<BlockArgument>(*kept)) // received
    return addArgument(backward, value.getType(),
                       partOf(stage, Forward).function.getArgAttrDict(argument.getArgNumber()), value.getLoc());
  handOn(partOf(stage, Forward), *kept, value, PortKind::Stash);
  return takeOver(backward, value, PortKind::Stash);
}

FailureOr<Value> StageFunctions::getFromNeighbour(Value value, int64_t stage, int64_t from, Pass pass) {
  FailureOr<Value> there = get(value, from, pass);
  if (failed(there))
    return failure();
  handOn(partOf(from, pass), *there, value, pass == Forward ? PortKind::Sent : PortKind::SentGradient);
  return takeOver(partOf(stage, pass), value, pass == Forward ? PortKind::Received : PortKind::ReceivedGradient);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Value StageFunctions::zeros(OpBuilder &builder, Location loc, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(tensor, builder.getZeroAttr(tensor.getElementType())));
}

static bool isAdded(OpOperand &operand) {
  auto rule = dyn_cast<FactorOpInterface>(operand.getOwner());
  return rule && rule.getLinearity(operand.getOperandNumber()) == Linearity::Additive;
}

/// In a sum that stages form together, each adds what only it has, and the first of them adds what several have.
bool StageFunctions::isMissing(OpOperand &operand, int64_t stage) const {
  if (!homes.of(operand.getOwner()).partial)
    return false;
  Home home = homes.of(operand.get());
  bool isExchanged = homes.readsExchanged(operand);
  StageSet has = isExchanged ? homes.exchangedOver(operand.get()) : home.stages;
  return home.partial && !isExchanged ? !contains(has, stage) : isAdded(operand) && has != 0 && lowestOf(has) != stage;
}

/// The summand of a sum of which a stage has only one; null otherwise.
OpOperand *StageFunctions::onlySummand(Operation *op, int64_t stage) const {
  OpOperand *only = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isAdded(operand) || isMissing(operand, stage))
      continue;
    if (only)
      return nullptr;
    only = &operand;
  }
  bool hasMissing = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) { return isMissing(operand, stage); });
  return hasMissing && only && op->getNumResults() == 1 && only->get().getType() == op->getResult(0).getType()
             ? only
             : nullptr;
}

FailureOr<Value> StageFunctions::getOperand(OpOperand &operand, int64_t stage, Pass pass) {
  Part &part = partOf(stage, pass);
  if (isMissing(operand, stage)) {
    OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
    return zeros(builder, operand.getOwner()->getLoc(), operand.get().getType());
  }
  if (homes.readsExchanged(operand))
    return part.exchanged.lookup(operand.get());
  return get(operand.get(), stage, pass);
}

/// Zeros for the parts of a concatenation, from operand `index` on, that this stage lacks in a row: mostly those of all
/// other stages' parameters. Moves `index` past them. Null where there is none.
Value StageFunctions::missingParts(Operation *op, unsigned &index, int64_t stage, Pass pass) {
  auto concat = dyn_cast<ConcatOp>(op);
  if (!concat || !isMissing(op->getOpOperand(index), stage))
    return {};
  auto shape = llvm::to_vector(concat.getType().getShape());
  int64_t &length = shape[concat.getDim()] = 0;
  for (; index < op->getNumOperands() && isMissing(op->getOpOperand(index), stage); ++index)
    length += concat.getBoxShape(index)[concat.getDim()];
  OpBuilder builder = OpBuilder::atBlockEnd(&partOf(stage, pass).function.front());
  return zeros(builder, op->getLoc(), concat.getType().clone(shape));
}

LogicalResult StageFunctions::clone(Operation *op, int64_t stage, Pass pass) {
  if (OpOperand *only = onlySummand(op, stage)) {
    FailureOr<Value> value = getOperand(*only, stage, pass);
    if (succeeded(value))
      partOf(stage, pass).values[op->getResult(0)] = *value;
    return value;
  }
  SmallVector<Value> operands;
  for (unsigned i = 0; i < op->getNumOperands();) {
    if (Value missing = missingParts(op, i, stage, pass)) {
      operands.push_back(missing);
      continue;
    }
    FailureOr<Value> value = getOperand(op->getOpOperand(i++), stage, pass);
    if (failed(value))
      return failure();
    operands.push_back(*value);
  }
  Part &part = partOf(stage, pass);
  if (isa<ConcatOp>(op) && operands.size() == 1) { // all of it is missing
    part.values[op->getResult(0)] = operands.front();
    return success();
  }
  OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
  Operation *copy = cloneOnto(op, builder, operands, op->getResultTypes());
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
    part.values[from] = to;
  return success();
}

static std::string describe(StageSet stages) {
  std::string text;
  for (int64_t stage = 0; stage < mostStages; ++stage)
    if (contains(stages, stage))
      text += (text.empty() ? "" : ", ") + std::to_string(stage);
  return text;
}

/// What a stage contributes to an exchange: its own summand, or zeros. A lone summand has its own location, so it gets
/// the sum's.
FailureOr<Value> StageFunctions::contribution(Value value, int64_t stage, OpBuilder &builder) {
  Home home = homes.of(value);
  Block *end = &partOf(stage, Backward).function.front();
  builder.setInsertionPointToEnd(end);
  if (home.partial ? !contains(home.stages, stage) : lowestOf(home.stages) != stage)
    return zeros(builder, value.getLoc(), value.getType());
  FailureOr<Value> own = get(value, stage, Backward);
  if (failed(own) || own->getLoc() == value.getLoc())
    return own;
  builder.setInsertionPointToEnd(end);
  return BarrierOp::create(builder, value.getLoc(), own->getType(), *own).getResult();
}

/// Each stage that wants a value takes part. The exchange comes after the passes: what the forward pass made waits
/// until then.
LogicalResult StageFunctions::exchange(Value value) {
  StageSet wanted = homes.exchangedOver(value);
  if (wanted == 0)
    return success();
  MarkListener listener({marksOf(value).layer, DirectionAttr::get(value.getContext(), Direction::Update)});
  OpBuilder builder(value.getContext(), &listener);
  SmallVector<int32_t> members;
  for (int64_t stage = 0; stage < cut.stages; ++stage)
    if (contains(wanted, stage))
      members.push_back(static_cast<int32_t>(stage));
  auto ofGroup = wanted == cut.all() ? DenseI32ArrayAttr() : builder.getDenseI32ArrayAttr(members);
  ArrayAttr axes = builder.getArrayAttr({AxisRefAttr::whole(builder.getStringAttr(pipelineAxis))});
  Home home = homes.of(value);
  StringAttr reason = builder.getStringAttr(
      home.partial ? "partial over stages " + describe(home.stages) + " of the pipeline"
                   : "made on stage " + describe(home.stages) + " of the pipeline, needed on all");
  for (int32_t stage : members) {
    FailureOr<Value> own = contribution(value, stage, builder);
    if (failed(own))
      return failure();
    partOf(stage, Backward).exchanged[value] = AllReduceOp::create(builder, value.getLoc(), value.getType(), *own, axes,
                                                                   ReductionKind::Sum, ofGroup, reason, StringAttr());
  }
  return success();
}

/// Every part that has a result returns it.
LogicalResult StageFunctions::returnAll() {
  for (OpOperand &result : original.front().getTerminator()->getOpOperands()) {
    DictionaryAttr attributes = original.getResultAttrDict(result.getOperandNumber());
    Operation *maker = result.get().getDefiningOp();
    if (!maker || homes.of(maker).isOnDemand())
      return original.emitError("result ") << result.getOperandNumber() << " is made by no stage of the pipeline";
    bool isExchanged = homes.readsExchanged(result);
    StageSet has = isExchanged ? homes.exchangedOver(result.get()) : homes.of(maker).stages;
    for (int64_t stage = 0; stage < cut.stages; ++stage)
      if (contains(has, stage)) {
        Part &part = partOf(stage, isExchanged ? Backward : passOf(maker));
        addResult(part, (isExchanged ? part.exchanged : part.values).lookup(result.get()), attributes);
      }
  }
  return success();
}

/// Erases unused operations, such as a square that another stage counts.
static void dropDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void StageFunctions::finish() {
  for (auto &[which, part] : parts) {
    OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
    func::ReturnOp::create(builder, part.function.getLoc(), part.results);
    part.function.setFunctionType(
        builder.getFunctionType(part.function.getArgumentTypes(), ValueRange(part.results).getTypes()));
    part.function.setAllResultAttrs(part.resultAttributes);
    dropDead(part.function.front());
  }
}

LogicalResult StageFunctions::build() {
  SmallVector<Value> ofPasses; // to be exchanged
  auto exchangeThese = [&] {
    for (Value value : std::exchange(ofPasses, {}))
      if (failed(exchange(value)))
        return failure();
    return success();
  };
  for (Operation &op : original.front().without_terminator()) {
    if (isUpdate(&op) && failed(exchangeThese()))
      return failure();
    for (int64_t stage = 0; stage < cut.stages; ++stage)
      if (contains(homes.of(&op).stages, stage) && failed(clone(&op, stage, passOf(&op))))
        return failure();
    llvm::append_range(ofPasses, op.getResults());
    if (isUpdate(&op) && failed(exchangeThese()))
      return failure();
  }
  if (failed(exchangeThese()) || failed(returnAll()))
    return failure();
  finish();
  return success();
}

} // namespace dtc
