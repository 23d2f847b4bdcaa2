// The functions that one function of a step becomes when it is cut.
#include "passes/keep/cut/StageFunctions.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/analysis/GatheredState.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

StageFunctions::StageFunctions(func::FuncOp original, const StageCut &cut, const StageHomes &homes,
                               ParameterStages &parameters, const ParameterStages &gradients, Crossings &crossings)
    : original(original), duty(dutyOf(original)), cut(cut), homes(homes), parameters(parameters), gradients(gradients),
      crossings(crossings) {
  if (cut.splitsBackward && duty.getTask() == Task::Both)
    findWeights();
}

/// Gradients of weights, and what is made on the way to them alone.
void StageFunctions::findWeights() {
  DenseSet<Operation *> needed; // by the gradients of inputs
  for (Operation &op : llvm::reverse(original.front().without_terminator())) {
    DirectionAttr direction = marksOf(&op).direction;
    if (isForward(&op) || !homes.isOfPasses(&op))
      continue;
    bool isWeight = direction && direction.getValue() != Direction::InputGradient;
    if (isWeight && !needed.contains(&op)) {
      weights.insert(&op);
      continue;
    }
    for (Value operand : op.getOperands())
      needed.insert(operand.getDefiningOp());
  }
}

StageFunctions::Pass StageFunctions::passOf(Operation *op) const {
  if (duty.getTask() == Task::Once || !homes.isOfPasses(op))
    return Once;
  return isForward(op) ? Forward : weights.contains(op) ? Weights : Backward;
}

StageFunctions::Part &StageFunctions::partOf(Place place) {
  auto [entry, isNew] = parts.try_emplace(place);
  if (isNew) {
    entry->second.function = makeFunction(place);
    entry->second.function.addEntryBlock();
  }
  return entry->second;
}

func::FuncOp StageFunctions::makeFunction(Place place) {
  struct Kind {
    StringRef name;
    Task task;
  };
  bool isOnce = place.pass == Once;
  Kind kind = isOnce ? duty.getTask() == Task::Once ? Kind{"", Task::Once} : Kind{".exchange", Task::Exchange}
              : place.pass == Weights ? Kind{".weights", Task::WeightGradients}
              : place.pass == Forward ? Kind{duty.getTask() == Task::Both ? ".forward" : "", Task::Forward}
              : cut.splitsBackward    ? Kind{".inputs", Task::InputGradients}
                                      : Kind{".backward", Task::Backward};
  OpBuilder builder(original);
  std::string name = (original.getName() + kind.name + "." + Twine(place.number)).str();
  auto function =
      func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name, builder.getFunctionType({}, {}));
  int64_t stage = isOnce ? cut.stagesOf(place.number).first() : place.number;
  function->setAttr(dutyAttr, DutyAttr::get(builder.getContext(), kind.task, stage, duty.getTimetable(),
                                            isOnce ? MicroBatches::None : duty.getMicroBatches()));
  return function;
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

/// The name is the value's place in the model; values with the same place are numbered.
StringAttr StageFunctions::nameOf(Value value, Names &names) {
  StringAttr &name = names.of[value];
  if (!name) {
    std::string place = placeOf(value.getLoc());
    int number = names.uses[place]++;
    name = StringAttr::get(value.getContext(), number == 0 ? place : place + "#" + std::to_string(number));
  }
  return name;
}

static PortAttr portIn(DictionaryAttr attributes) { return cast<PortAttr>(attributes.get(portAttr)); }

/// A rank keeps the summands of its stages apart: the first has the gradient's name, the others say of which stage they
/// are. So they are added in one order, whatever the timetable.
DictionaryAttr StageFunctions::ofStage(DictionaryAttr attributes, int64_t stage) const {
  PortAttr port = portIn(attributes);
  if (!port.isGradient())
    return attributes;
  StageSet summands = gradients.lookup(port.getName()) & cut.stagesOf(cut.rankOf[stage]);
  if (summands.isEmpty() || summands.first() == stage)
    return attributes;
  NamedAttrList changed(attributes);
  changed.set(portAttr, port.withSlot("stage_" + std::to_string(stage)));
  return changed.getDictionary(attributes.getContext());
}

Value StageFunctions::addArgument(Part &part, Type type, DictionaryAttr attributes, Location loc) {
  Value &argument = part.arguments[portIn(attributes).identity()];
  if (!argument) {
    argument = part.function.front().addArgument(type, loc);
    part.argumentAttributes.push_back(attributes);
  }
  return argument;
}

/// Takes what another part hands on of a value: all of it, or a piece of this type.
Value StageFunctions::takeOver(Part &part, Value value, Type type, PortKind kind) {
  PortAttr port = PortAttr::get(value.getContext(), kind, nameOf(value, handedOn).getValue());
  return addArgument(part, type, portAttributes(port), value.getLoc());
}

void StageFunctions::addResult(Part &part, Value value, DictionaryAttr attributes) {
  if (!part.returned.insert(portIn(attributes).identity()).second)
    return;
  part.results.push_back(value);
  part.resultAttributes.push_back(attributes);
}

void StageFunctions::handOn(Part &part, Value value, Value of, PortKind kind) {
  addResult(part, value, portAttributes(PortAttr::get(of.getContext(), kind, nameOf(of, handedOn).getValue())));
}

/// As what a pass of a stage returns a value: as the original does, else as a rank's own share. An early update comes
/// between passes and exchange, and reads outputs that are assumed.
DictionaryAttr StageFunctions::returnedAs(Value value, int64_t stage) {
  for (OpOperand &use : value.getUses())
    if (use.getOwner() == original.front().getTerminator()) {
      auto attributes = original.getResultAttrDict(use.getOperandNumber());
      PortKind kind = portIn(attributes).getKind();
      if (kind != PortKind::Share && !(kind == PortKind::Output && cut.earlyUpdate))
        return ofStage(attributes, stage);
    }
  std::string name = nameOf(value, shares).str();
  if (!(homes.of(value).where & cut.stagesOf(cut.rankOf[stage])).hasOne())
    name += " of stage " + std::to_string(stage);
  return portAttributes(PortAttr::get(value.getContext(), PortKind::Share, name));
}

//===----------------------------------------------------------------------===//
// Where the values that a function reads come from
//===----------------------------------------------------------------------===//

/// The home of a value in the numbers of a place: stages for passes, ranks for what is done once.
Home StageFunctions::homeAt(Place place, Value value) const {
  return place.pass == Once ? homes.amongRanks(value) : homes.of(value);
}

/// The value of the original function, in a part.
FailureOr<Value> StageFunctions::get(Value value, Place place) {
  Part &part = partOf(place);
  if (Value known = part.values.lookup(value))
    return known;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    DictionaryAttr attributes = original.getArgAttrDict(argument.getArgNumber());
    PortAttr port = portIn(attributes);
    bool isWeight = port.getKind() == PortKind::Parameter || port.getKind() == PortKind::Copy;
    if (cut.asynchronous && isWeight && place.pass == Backward && place.number + 1 < cut.stages())
      return getStashedParameter(argument, place.number);
    if (place.pass != Once) {
      attributes = ofStage(attributes, place.number);
      if (duty.getTask() == Task::Both && isWeight)
        parameters[port.getName()] |= StageSet::of(place.number);
    }
    return part.values[value] = addArgument(part, value.getType(), attributes, argument.getLoc());
  }
  Operation *maker = value.getDefiningOp();
  if (homes.of(maker).isOnDemand()) {
    if (failed(clone(maker, place)))
      return failure();
    return part.values.lookup(value);
  }
  FailureOr<Value> found = place.pass == Once ? getFromPasses(value, place.number) : getFromElsewhere(value, place);
  if (failed(found))
    return failure();
  return part.values[value] = *found;
}

FailureOr<Value> StageFunctions::getFromElsewhere(Value value, Place place) {
  Operation *maker = value.getDefiningOp();
  StageSet has = homes.of(maker).where;
  int64_t stage = place.number;
  Pass made = passOf(maker);
  if (place.pass == Weights && made == Backward)
    return getFromEarlier(value, place, Backward);
  if (place.pass != Forward && made == Forward && (has.contains(stage) || has.last() < stage))
    return getFromEarlier(value, place, Forward);
  if (place.pass == Forward && has.last() < stage) // made before: it comes along in the forward pass
    return getFromNeighbour(value, place, stage - 1);
  if (place.pass == Backward && has.last() > stage && !has.contains(stage))
    return getFromNeighbour(value, place, stage + 1);
  return maker->emitError("what stage ") << has.last() << " of the pipeline makes here is needed by stage " << stage
                                         << ", which has run by then; cut the model elsewhere";
}

/// Whether a kernel that reads the value makes it on the way: from one stored tensor that is no larger, such as by
/// adding a bias, or from small ones alone, such as a row's mean for each of its elements. Then these are kept, which
/// others may read too.
bool StageFunctions::isMadeOnTheWay(Operation *maker) {
  if (!stored.isLight(maker))
    return false;
  SmallVector<Value> inputs = stored.largeInputsOf(maker);
  return inputs.empty() ||
         (inputs.size() == 1 && bytesOf(inputs.front().getType()) <= bytesOf(maker->getResult(0).getType()));
}

/// What an earlier pass of the stage has. Views, and what is made on the way, are made again: what they are made from
/// is kept.
FailureOr<Value> StageFunctions::getFromEarlier(Value value, Place place, Pass earlier) {
  Operation *maker = value.getDefiningOp();
  if (homes.of(maker).where.contains(place.number) && (isView(maker) || isMadeOnTheWay(maker))) {
    if (failed(clone(maker, place)))
      return failure();
    Value again = partOf(place).values.lookup(value);
    if (!isView(maker)) {
      Direction direction = place.pass == Weights ? Direction::WeightGradient : Direction::InputGradient;
      again.getDefiningOp()->setAttr(directionAttr, DirectionAttr::get(maker->getContext(), direction));
    }
    return again;
  }
  Place before{place.number, earlier};
  FailureOr<Value> kept = get(value, before);
  if (failed(kept))
    return failure();
  if (auto argument = dyn_cast<BlockArgument>(*kept)) // received
    return addArgument(partOf(place), value.getType(), partOf(before).argumentAttributes[argument.getArgNumber()],
                       value.getLoc());
  handOn(partOf(before), *kept, value, PortKind::Stash);
  return takeOver(partOf(place), value, value.getType(), PortKind::Stash);
}

FailureOr<Value> StageFunctions::getFromNeighbour(Value value, Place place, int64_t from) {
  Place there{from, place.pass};
  FailureOr<Value> found = get(value, there);
  if (failed(found))
    return failure();
  bool isForward = place.pass == Forward;
  std::optional<CrossingParts> parts = crossings.partsOf(value, from, place.number);
  Value sent = *found;
  if (parts) // the stage may have received the part that it sends
    if (sent = partOf(there).pieces.lookup(value); !sent)
      sent = slice(*found, *parts, marksOf(value));
  handOn(partOf(there), sent, value, isForward ? PortKind::Sent : PortKind::SentGradient);
  Part &part = partOf(place);
  Value received = takeOver(part, value, sent.getType(), isForward ? PortKind::Received : PortKind::ReceivedGradient);
  if (!parts)
    return received;
  part.pieces[value] = received;
  OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
  return gatherParts(builder, received, value, *parts, isForward);
}

/// What a rank's stages have made, added up.
FailureOr<Value> StageFunctions::getFromPasses(Value value, int64_t rank) {
  if (homes.comesBack(value))
    return getFromFirstStage(value, rank);
  Pass made = passOf(value.getDefiningOp());
  StageSet has = homes.of(value).where & cut.stagesOf(rank);
  if (made == Once || has.isEmpty())
    return value.getDefiningOp()->emitError("what no stage of rank ")
           << rank << " along the pipeline makes is needed there; cut the model elsewhere";
  if (!homes.of(value).partial)
    has = StageSet::of(has.first()); // all of them have the same
  Part &part = partOf({rank, Once});
  OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
  Value sum;
  for (int64_t stage : has.numbers()) {
    FailureOr<Value> summand = get(value, {stage, made});
    if (failed(summand))
      return failure();
    DictionaryAttr attributes = returnedAs(value, stage);
    addResult(partOf({stage, made}), *summand, attributes);
    Value taken = addArgument(part, value.getType(), attributes, value.getLoc());
    if (!sum) {
      sum = taken;
      continue;
    }
    sum = AddOp::create(builder, value.getLoc(), sum, taken);
    mark(sum.getDefiningOp(), {marksOf(value).layer, DirectionAttr::get(value.getContext(), Direction::Update)});
  }
  return sum;
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

/// In a sum that several form together, each adds what only it has, and the first of them adds what several have.
bool StageFunctions::isMissing(OpOperand &operand, Place place) const {
  if (!homes.of(operand.getOwner()).partial)
    return false;
  Home home = homeAt(place, operand.get());
  bool isExchanged = homes.readsExchanged(operand);
  StageSet has = isExchanged ? homes.exchangedOver(operand.get()) : home.where;
  return home.partial && !isExchanged ? !has.contains(place.number)
                                      : isAdded(operand) && !has.isEmpty() && has.first() != place.number;
}

/// The summand of a sum of which a place has only one; null otherwise.
OpOperand *StageFunctions::onlySummand(Operation *op, Place place) const {
  if (!homes.of(op).partial) // nothing is missing
    return nullptr;
  OpOperand *only = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isAdded(operand) || isMissing(operand, place))
      continue;
    if (only)
      return nullptr;
    only = &operand;
  }
  bool hasMissing = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) { return isMissing(operand, place); });
  return hasMissing && only && op->getNumResults() == 1 && only->get().getType() == op->getResult(0).getType()
             ? only
             : nullptr;
}

FailureOr<Value> StageFunctions::getOperand(OpOperand &operand, Place place) {
  Part &part = partOf(place);
  if (isMissing(operand, place)) {
    OpBuilder builder = OpBuilder::atBlockEnd(&part.function.front());
    return zeros(builder, operand.getOwner()->getLoc(), operand.get().getType());
  }
  if (homes.readsExchanged(operand))
    return part.exchanged.lookup(operand.get());
  return get(operand.get(), place);
}

/// Zeros for the parts of a concatenation, from operand `index` on, that this place lacks in a row: mostly those of all
/// other stages' parameters. Moves `index` past them. Null where there is none.
Value StageFunctions::missingParts(Operation *op, unsigned &index, Place place) {
  auto concat = dyn_cast<ConcatOp>(op);
  if (!concat || !isMissing(op->getOpOperand(index), place))
    return {};
  auto shape = llvm::to_vector(concat.getType().getShape());
  int64_t &length = shape[concat.getDim()] = 0;
  for (; index < op->getNumOperands() && isMissing(op->getOpOperand(index), place); ++index)
    length += concat.getBoxShape(index)[concat.getDim()];
  OpBuilder builder = OpBuilder::atBlockEnd(&partOf(place).function.front());
  return zeros(builder, op->getLoc(), concat.getType().clone(shape));
}

LogicalResult StageFunctions::clone(Operation *op, Place place) {
  if (OpOperand *only = onlySummand(op, place)) {
    FailureOr<Value> value = getOperand(*only, place);
    if (succeeded(value))
      partOf(place).values[op->getResult(0)] = *value;
    return value;
  }
  SmallVector<Value> operands;
  for (unsigned i = 0; i < op->getNumOperands();) {
    if (Value missing = missingParts(op, i, place)) {
      operands.push_back(missing);
      continue;
    }
    FailureOr<Value> value = getOperand(op->getOpOperand(i++), place);
    if (failed(value))
      return failure();
    operands.push_back(*value);
  }
  Part &part = partOf(place);
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

/// Every part that has a result returns it.
LogicalResult StageFunctions::returnAll() {
  for (OpOperand &result : original.front().getTerminator()->getOpOperands()) {
    DictionaryAttr attributes = original.getResultAttrDict(result.getOperandNumber());
    Operation *maker = result.get().getDefiningOp();
    if (!maker || homes.of(maker).isOnDemand())
      return original.emitError("result ") << result.getOperandNumber() << " is made by no stage of the pipeline";
    if (comesBackTo(result)) {
      if (failed(returnFromEachStage(result)))
        return failure();
      continue;
    }
    bool isExchanged = homes.readsExchanged(result);
    Pass pass = isExchanged ? Once : passOf(maker);
    if (cut.earlyUpdate && pass == Once && portIn(attributes).getKind() == PortKind::ReducedGradient)
      return original.emitError("overlap_steps: the gradient of ")
             << portIn(attributes).getName()
             << " is complete only behind all passes, where its parts are added (a tied "
             << "embedding, say), and the update comes before that; untie it (tie_word_embeddings = false in the "
                "model's "
             << "config.json), or leave overlap_steps out";
    for (int64_t number : (isExchanged ? homes.exchangedOver(result.get()) : homes.of(maker).where).numbers()) {
      Part &part = partOf({number, pass});
      addResult(part, (isExchanged ? part.exchanged : part.values).lookup(result.get()),
                pass == Once ? attributes : ofStage(attributes, number));
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
        builder.getFunctionType(part.function.front().getArgumentTypes(), ValueRange(part.results).getTypes()));
    part.function.setAllArgAttrs(part.argumentAttributes);
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
    Pass pass = passOf(&op);
    if (pass == Once && failed(exchangeThese()))
      return failure();
    for (int64_t number : homes.of(&op).where.numbers())
      if (failed(clone(&op, {number, pass})))
        return failure();
    llvm::append_range(ofPasses, op.getResults());
    if (pass == Once && failed(exchangeThese()))
      return failure();
  }
  if (failed(exchangeThese()) || failed(returnAll()))
    return failure();
  if (cut.splitsBackward && duty.getTask() == Task::Both) // each micro-batch has all passes, even one that does nothing
    for (int64_t stage = 0; stage < cut.stages(); ++stage)
      partOf({stage, Weights});
  finish();
  return success();
}

} // namespace dtc
