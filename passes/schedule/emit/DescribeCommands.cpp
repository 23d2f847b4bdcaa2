// Adds to a step that was read what orders and costs need.
#include "passes/schedule/ReadStep.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "passes/analysis/GatheredState.h"
#include "passes/schedule/buckets/BucketCollectives.h"
#include "passes/schedule/emit/EmitCommands.h"
#include "passes/schedule/emit/EmitMarks.h"
#include "passes/schedule/launches/JoinedLaunches.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

using Kind = FlatCommand::Kind;

/// "input_gradient contract contract_backward h.*.mlp.c_fc": part, operation, purpose, place.
static std::string nameOf(Operation *op) {
  std::string name;
  auto add = [&](StringRef word) {
    if (!word.empty())
      name += (name.empty() ? "" : " ") + word.str();
  };
  Marks marks = marksOf(op);
  if (marks.direction)
    add(stringifyDirection(marks.direction.getValue()));
  Operation *moved = op;
  if (auto wait = dyn_cast<WaitOp>(op)) {
    add("wait");
    moved = wait.getFuture().getDefiningOp();
  }
  StringRef own = moved->getName().stripDialect(), purpose = purposeOf(moved);
  add(own);
  if (purpose != own)
    add(purpose);
  std::string place = placeOf(op->getLoc());
  if (LayerAttr layer = marks.layer) {
    std::string within = withinLayer(op, place);
    if (within != place)
      place = layer.getList().str() + ".*" + (within == "." ? "" : within);
  }
  add(place);
  return name;
}

/// If several in a layer have one name, the second is "... #2", in the order in which they were found.
static void nameCommands(const ReadRole::Function &read, FlatFunction &flat) {
  DenseMap<int64_t, llvm::StringMap<int>> known; // of each layer
  for (auto [op, command] : llvm::zip_equal(read.commands, flat.commands)) {
    if (command.isView())
      continue;
    if (LayerAttr layer = marksOf(op).layer) {
      command.layers = layer.getList().str();
      command.layer = layer.getNumber();
    }
    command.name = nameOf(op);
    if (int number = ++known[command.layer][command.name]; number > 1)
      command.name += " #" + std::to_string(number);
  }
}

static void describeMeeting(CollectiveOpInterface op, int64_t ranks, const FlatMove &move, FlatCommand &command) {
  for (AxisRefAttr axis : op.getCollectiveAxes())
    if (axis.getAxis().getValue() == pipelineAxis)
      command.stages = StageSet::below(ranks);
  if (ArrayRef<int32_t> members = op.getGroupMembers(); !members.empty()) {
    command.stages = {};
    for (int32_t member : members)
      command.stages |= StageSet::of(member);
  }
  command.sent = abi::sentBytes(move.kind, move.payload, abi::membersOf(move.group));
  if (!command.stages.isEmpty())
    command.meeting = nameOf(op);
}

FlatMove moveOf(CollectiveOpInterface op, MeshAttr mesh) {
  FlatMove move;
  move.purpose = collectivePurpose.str();
  for (AxisRefAttr axis : op.getCollectiveAxes())
    emitAxis(axis, mesh, *move.group.add_axes());
  for (int32_t member : op.getGroupMembers())
    move.group.add_members(static_cast<uint32_t>(member));
  abi::Collective moved;
  describeMoved(op, moved);
  move.kind = moved.kind();
  move.type = moved.type();
  move.reduction = moved.reduction();
  move.payload = abi::payloadBytes(moved, abi::membersOf(move.group));
  return move;
}

abi::DataType narrowestType(Operation *op) {
  std::optional<abi::DataType> narrowest;
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (const abi::ElementType &element = elementTypeOf(tensor);
          element.isFloating() && (!narrowest || element.bytes < abi::elementType(*narrowest).bytes))
        narrowest = element.type;
  return narrowest.value_or(abi::F32);
}

static FlatMove moveOf(Type moved, ArrayAttr axes, int64_t shift, Route route, MeshAttr mesh) {
  FlatMove move;
  move.purpose = transferPurpose(route, mesh.getAxisSize(pipelineAxis));
  for (auto axis : axes.getAsRange<AxisRefAttr>())
    emitAxis(axis, mesh, *move.group.add_axes());
  move.payload = static_cast<double>(bytesOf(moved));
  move.shift = shift;
  return move;
}

/// Gradients of parameters, and parameters that are gathered, may wait for others of their kind; activations are
/// awaited at once. Those that other stages take part in keep the order that all share.
static void describeBucket(CollectiveOpInterface op, FlatCommand &command) {
  bool isOfParameter =
      command.direction == abi::UPDATE || command.direction == abi::WEIGHT_GRADIENT || isOfState(op->getOperand(0));
  command.mayJoin = isOfParameter && !command.isAwaited && command.stages.isEmpty() && command.users.size() == 1 &&
                    command.users.front() != FlatCommand::theEnd;
  if (auto bucket = op->getAttrOfType<IntegerAttr>(bucketAttr))
    command.bucket = static_cast<int>(bucket.getInt());
}

namespace {

/// Adds to a function's commands what they cost and move.
class CommandDescriber {
public:
  CommandDescriber(ReadRole &read, Kernels &kernels) : role(read.role), kernels(kernels), formulas(kernels) {
    for (auto [index, port] : llvm::enumerate(read.ports))
      ports[port.identity()] = static_cast<int>(index);
  }

  LogicalResult describe(ReadRole::Function &own, FlatFunction &flat) {
    module = own.function->getParentOfType<ModuleOp>();
    mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
    for (auto [op, command] : llvm::zip_equal(own.commands, flat.commands)) {
      if (auto direction = marksOf(op).direction)
        command.direction = directionOf(direction.getValue());
      command.isAgain = isMadeAgain(op->getLoc());
      command.isEmitted = !isa<ViewOpInterface>(op);
      if (!command.isEmitted)
        continue;
      if (failed(describeWork(op, command)))
        return failure();
      if (auto launch = dyn_cast<LaunchOp>(op))
        describeLaunch(launch, own, command);
      describeMove(op, command);
    }
    return success();
  }

private:
  LogicalResult describeWork(Operation *op, FlatCommand &command) {
    if (command.kind != Kind::Launch && command.kind != Kind::Start && command.kind != Kind::Copy)
      return success();
    auto launch = dyn_cast<LaunchOp>(op);
    FailureOr<Work> work = launch ? kernels.workOf(launch) : workOf(op);
    if (failed(work))
      return failure();
    command.work = workFor(*work);
    command.isLibrary = !launch;
    command.type = narrowestType(op);
    return success();
  }

  void describeLaunch(LaunchOp launch, ReadRole::Function &own, FlatCommand &command) {
    command.formula = formulas.numberOf(launch);
    if (command.formula == 0)
      return;
    auto add = [&](Value value, bool isWritten) {
      auto type = cast<RankedTensorType>(value.getType());
      Layouts &layouts = *own.layouts;
      FlatBuffer buffer{own.values.lookup(layouts.rootOf(value)), 0,        bytesOf(type), type.getRank() == 0,
                        layouts.layoutOf(value).isDense(),        isWritten};
      if (!layouts.ownsBuffer(value))
        buffer.offset = abi::bytesOf(elementTypeOf(type).type, layouts.placeOf(value).view.offset);
      command.buffers.push_back(buffer);
    };
    for (Value operand : launch.getOperands())
      add(operand, false);
    for (Value result : launch.getResults())
      add(result, true);
  }

  void describeMove(Operation *op, FlatCommand &command) {
    auto addMove = [&](FlatMove move) {
      command.move = static_cast<int>(role.moves.size());
      role.moves.push_back(std::move(move));
    };
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      command.isAwaited = !isa<FutureType>(op->getResult(0).getType());
      addMove(moveOf(collective, mesh));
      describeMeeting(collective, rolesOf(module), role.moves.back(), command);
      describeBucket(collective, command);
    } else if (auto send = dyn_cast<SendOp>(op)) {
      command.port = ports.lookup(send.getPort().identity());
      addMove(moveOf(send.getOperand().getType(), send.getAxes(), static_cast<int64_t>(send.getShift()),
                     routeOf(op->getParentOfType<func::FuncOp>(), send.getPort()), mesh));
    } else if (auto receive = dyn_cast<RecvOp>(op)) {
      command.port = ports.lookup(receive.getPort().identity());
      addMove(moveOf(receive.getResult().getType(), receive.getAxes(), static_cast<int64_t>(receive.getShift()),
                     routeOf(op->getParentOfType<func::FuncOp>(), receive.getPort()), mesh));
    } else if (auto await = dyn_cast<AwaitOp>(op)) {
      command.port = ports.lookup(await.getPort().identity());
    }
  }

  FlatRole &role;
  Kernels &kernels;
  Formulas formulas;
  DenseMap<PortIdentity, int> ports;
  ModuleOp module;
  MeshAttr mesh;
};

} // namespace

LogicalResult describeCommands(ReadRole &read, Kernels &kernels) {
  CommandDescriber describer(read, kernels);
  for (auto [own, flat] : llvm::zip_equal(read.functions, read.role.functions)) {
    nameCommands(own, flat);
    if (failed(describer.describe(own, flat)))
      return failure();
  }
  return success();
}

} // namespace dtc
