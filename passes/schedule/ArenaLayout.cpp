// Reads the memory plan of a module in Form 5.
#include "passes/schedule/ArenaLayout.h"

#include "dialect/IR/Names.h"
#include "passes/lower/Targets.h"
#include "runtime/abi/addresses.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

int64_t stagesOf(ModuleOp module) {
  auto stages = module->getAttrOfType<ArrayAttr>(module_attr::stages);
  return stages ? static_cast<int64_t>(stages.size()) : 1;
}

SmallVector<func::FuncOp> functionsOf(ModuleOp module, int64_t stage) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (DutyAttr duty = dutyOf(function); !duty || duty.getStage() == stage)
      functions.push_back(function);
  return functions;
}

SmallVector<uint32_t> placesOf(ModuleOp module, int64_t stage) {
  SmallVector<uint32_t> places(numSpaces, 1);
  if (auto timetables = module->getAttrOfType<ArrayAttr>(module_attr::timetables))
    for (auto timetable : timetables.getAsRange<TimetableAttr>())
      for (EntryAttr entry : timetable.getStage() == stage ? timetable.getEntries() : ArrayRef<EntryAttr>())
        for (auto [most, place] : llvm::zip(places, entry.getPlaces()))
          most = std::max(most, static_cast<uint32_t>(place + 1));
  return places;
}

FailureOr<ArenaLayout> ArenaLayout::read(ModuleOp module, int64_t stage) {
  ArenaLayout arena;
  if (failed(arena.readModule(module, stage)))
    return failure();
  for (func::FuncOp function : functionsOf(module, stage))
    if (failed(arena.readFunction(function)))
      return failure();
  return arena;
}

LogicalResult ArenaLayout::readModule(ModuleOp module, int64_t stage) {
  Attribute ofModule = module->getAttr(arenaAttr);
  if (auto ofStages = dyn_cast_or_null<ArrayAttr>(ofModule))
    ofModule = stage < static_cast<int64_t>(ofStages.size()) ? ofStages[stage] : Attribute();
  auto arena = dyn_cast_or_null<DictionaryAttr>(ofModule);
  auto bytes = arena ? arena.getAs<IntegerAttr>("bytes") : IntegerAttr();
  auto begin = arena ? arena.getAs<IntegerAttr>("shared") : IntegerAttr();
  if (!bytes || !begin)
    return module.emitError("M1: lacks ") << arenaAttr << " = {bytes, shared}; run dt-plan-memory";
  size = bytes.getInt();
  shared = begin.getInt();
  unit = targetOf(module).getPlaceAlignment();
  return readSpaces(module, arena);
}

LogicalResult ArenaLayout::readSpaces(ModuleOp module, DictionaryAttr arena) {
  auto spaces = arena.getAs<ArrayAttr>("spaces");
  for (Attribute each : spaces ? spaces.getValue() : ArrayRef<Attribute>()) {
    auto space = dyn_cast<DenseI64ArrayAttr>(each);
    if (!space || space.size() != 4)
      return module.emitError("M1: a space is [number, base, stride, places]; run dt-plan-memory");
    several.push_back({static_cast<uint32_t>(space[0]), static_cast<uint64_t>(space[1]),
                       static_cast<uint64_t>(space[2]), static_cast<uint32_t>(space[3])});
  }
  return success();
}

uint64_t ArenaLayout::privateSpaceEnd() const {
  uint64_t until = shared;
  for (const PlacedSpace &space : several)
    if (space.base < shared)
      until = std::min(until, space.base);
  return until;
}

uint64_t ArenaLayout::registeredSpaceEnd() const {
  uint64_t until = size;
  for (const PlacedSpace &space : several)
    if (space.base >= shared)
      until = std::min(until, space.base);
  return until;
}

bool ArenaLayout::isOfSeveral(uint64_t offset) const {
  return llvm::any_of(several, [&](const PlacedSpace &space) { return offset >= space.base && offset < space.end(); });
}

LogicalResult ArenaLayout::readFunction(func::FuncOp function) {
  layouts.insert({function, std::make_unique<Layouts>(function)});
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    Attribute offset = function.getArgAttr(i, offsetAttr);
    if (failed(readPort(function, argumentPort(function, i), argument.getType(), offset)))
      return failure();
    offsets[argument] = cast<IntegerAttr>(offset).getInt();
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(readPort(function, resultPort(function, i), type, function.getResultAttr(i, offsetAttr))))
      return failure();
  for (Operation &op : function.front().without_terminator()) {
    auto places = op.getAttrOfType<DenseI64ArrayAttr>(offsetsAttr);
    for (OpResult result : op.getResults()) {
      if (layoutsOf(function).rootOf(result) != result)
        continue;
      if (!places || places.size() != op.getNumResults())
        return op.emitError("M1: lacks ") << offsetsAttr << " with one offset a result; run dt-plan-memory";
      offsets[result] = places[result.getResultNumber()];
      if (offsets[result] < shared && !isOfSeveral(offsets[result]))
        privateEnd = std::max(privateEnd, alignTo(offsets[result] + bytesOf(result.getType()), unit));
    }
  }
  return success();
}

LogicalResult ArenaLayout::readPort(func::FuncOp function, PortAttr port, Type type, Attribute offset) {
  auto number = dyn_cast_or_null<IntegerAttr>(offset);
  if (!port || !number)
    return function.emitError("M1: an argument or result lacks ") << portAttr << " or " << offsetAttr;
  uint64_t at = number.getInt();
  auto [known, isNew] = indexOf.try_emplace(port.identity(), named.size());
  if (isNew) {
    named.push_back({port, cast<RankedTensorType>(type), at});
    if (at < shared && !isOfSeveral(at))
      privateEnd = std::max(privateEnd, endOf(named.back()));
  } else if (named[known->second].offset != at) {
    return function.emitError("M2: ") << port.describe() << " lies at " << at << ", in another function at "
                                      << named[known->second].offset;
  }
  return success();
}

uint64_t ArenaLayout::addressOf(func::FuncOp function, Value value) {
  Layouts &layouts = layoutsOf(function);
  if (layouts.rootOf(value) == value)
    return offsetOf(value);
  const Place &place = layouts.placeOf(value);
  return offsetOf(place.root) + abi::bytesOf(elementTypeOf(value.getType()).type, place.view.offset);
}

uint64_t ArenaLayout::spaceAddress(uint64_t offset) const {
  for (const PlacedSpace &space : several)
    if (offset >= space.base && offset < space.end())
      return abi::addressOf(space.number, offset - space.base);
  return offset < shared ? abi::addressOf(privateSpace, offset) : abi::addressOf(registeredSpace, offset - shared);
}

SmallVector<std::pair<std::string, uint64_t>> ArenaLayout::memoryUse() const {
  DenseSet<uint64_t> counted; // tensors that take over another's memory lie where that does
  uint64_t state = 0, copies = 0, slots = 0, gradients = 0, interface = 0, privateNamed = 0, sharedNamed = shared;
  for (const PlacedTensor &tensor : named) {
    if (isOfSeveral(tensor.offset))
      continue;
    (tensor.offset < shared ? privateNamed : sharedNamed) =
        std::max(tensor.offset < shared ? privateNamed : sharedNamed, endOf(tensor));
    if (!counted.insert(tensor.offset).second)
      continue;
    uint64_t bytes = endOf(tensor) - tensor.offset;
    (tensor.port.getKind() == PortKind::Parameter ? state
     : tensor.port.getKind() == PortKind::Copy    ? copies
     : tensor.port.getKind() == PortKind::Slot    ? slots
     : tensor.port.isGradient()                   ? gradients
                                                  : interface) += bytes;
  }
  uint64_t stash = 0, received = 0, sent = 0;
  for (const PlacedSpace &space : several)
    (space.number == stashSpace || space.number == registeredStashSpace       ? stash
     : space.number == receivedSpace || space.number == receivedGradientSpace ? received
                                                                              : sent) += space.end() - space.base;
  uint64_t activations = privateEnd - privateNamed, communication = registeredSpaceEnd() - sharedNamed;
  uint64_t alignment =
      size - communication - activations - state - copies - slots - gradients - interface - stash - received - sent;
  SmallVector<std::pair<std::string, uint64_t>> use = {{"parameters", state},
                                                       {"optimizer state", slots},
                                                       {"gradients", gradients},
                                                       {"inputs and outputs", interface},
                                                       {"activations and workspace", activations},
                                                       {"communication buffers", communication},
                                                       {"alignment", alignment}};
  if (copies) // few programs have them
    use.insert(use.begin() + 1, {"copies in 16 bits", copies});
  if (!several.empty()) // a pipeline's
    use.insert(use.end() - 1,
               {{"stash of micro-batches under way", stash}, {"receive buffers", received}, {"send buffers", sent}});
  return use;
}

} // namespace dtc
