// Reads the memory plan of a module in Form 5.
#include "passes/schedule/memory/ArenaLayout.h"

#include "dialect/IR/Names.h"
#include "passes/analysis/Stages.h"
#include "passes/lower/Targets.h"
#include "runtime/abi/addresses.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

SmallVector<uint32_t> placesOf(ModuleOp module, int64_t role) {
  SmallVector<uint32_t> places(numSpaces, 1);
  if (auto timetables = module->getAttrOfType<ArrayAttr>(module_attr::timetables))
    for (auto timetable : timetables.getAsRange<TimetableAttr>())
      for (EntryAttr entry : timetable.getRank() == role ? timetable.getEntries() : ArrayRef<EntryAttr>()) {
        for (auto [most, place] : llvm::zip(places, entry.getPlaces()))
          most = std::max(most, static_cast<uint32_t>(place + 1));
        for (auto [most, turns] : llvm::zip(places, entry.getTurns()))
          most = std::max(most, static_cast<uint32_t>(turns));
      }
  return places;
}

FailureOr<ArenaLayout> ArenaLayout::read(ModuleOp module, int64_t role) {
  return read(module, role, functionsOf(module, role));
}

FailureOr<ArenaLayout> ArenaLayout::read(ModuleOp module, int64_t role, ArrayRef<func::FuncOp> functions) {
  ArenaLayout arena;
  if (failed(arena.readModule(module, role)))
    return failure();
  for (func::FuncOp function : functions)
    if (failed(arena.readFunction(function)))
      return failure();
  return arena;
}

LogicalResult ArenaLayout::readModule(ModuleOp module, int64_t role) {
  Attribute ofModule = module->getAttr(arenaAttr);
  if (auto ofRoles = dyn_cast_or_null<ArrayAttr>(ofModule))
    ofModule = role < static_cast<int64_t>(ofRoles.size()) ? ofRoles[role] : Attribute();
  auto arena = dyn_cast_or_null<DictionaryAttr>(ofModule);
  auto bytes = arena ? arena.getAs<IntegerAttr>("bytes") : IntegerAttr();
  auto begin = arena ? arena.getAs<IntegerAttr>("shared") : IntegerAttr();
  if (!bytes || !begin)
    return module.emitError("M1: lacks ") << arenaAttr << " = {bytes, shared}; run dt-plan-memory";
  extent.bytes = bytes.getInt();
  extent.shared = begin.getInt();
  if (auto host = arena.getAs<IntegerAttr>("host"))
    extent.host = host.getInt();
  unit = targetOf(module).getPlaceAlignment();
  return readSpaces(module, arena);
}

LogicalResult ArenaLayout::readSpaces(ModuleOp module, DictionaryAttr arena) {
  auto spaces = arena.getAs<ArrayAttr>("spaces");
  for (Attribute each : spaces ? spaces.getValue() : ArrayRef<Attribute>()) {
    auto space = dyn_cast<DenseI64ArrayAttr>(each);
    if (!space || space.size() != 4)
      return module.emitError("M1: a space is [number, base, stride, places]; run dt-plan-memory");
    extent.spaces.push_back({static_cast<uint32_t>(space[0]), static_cast<uint64_t>(space[1]),
                             static_cast<uint64_t>(space[2]), static_cast<uint32_t>(space[3])});
  }
  return success();
}

/// Their names in dt.offsets.
constexpr StringLiteral argumentOffsets = "arguments", resultOffsets = "results", valueOffsets = "values";

FailureOr<FunctionOffsets> FunctionOffsets::of(func::FuncOp function) {
  auto all = function->getAttrOfType<DictionaryAttr>(offsetsAttr);
  auto list = [&](StringRef name) { return all ? all.getAs<DenseI64ArrayAttr>(name) : DenseI64ArrayAttr(); };
  DenseI64ArrayAttr arguments = list(argumentOffsets), results = list(resultOffsets), values = list(valueOffsets);
  if (!arguments || !results || !values || arguments.size() != function.getNumArguments() ||
      results.size() != function.getNumResults())
    return function.emitError("M1: lacks ") << offsetsAttr << " = {arguments, results, values} with one offset each; "
                                            << "run dt-plan-memory";
  return FunctionOffsets{arguments, results, values};
}

void FunctionOffsets::writeTo(func::FuncOp function) const {
  Builder builder(function.getContext());
  auto list = [&](StringRef name, ArrayRef<int64_t> offsets) {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(offsets));
  };
  function->setAttr(offsetsAttr, builder.getDictionaryAttr({list(argumentOffsets, arguments),
                                                            list(resultOffsets, results), list(valueOffsets, values)}));
}

LogicalResult ArenaLayout::readFunction(func::FuncOp function) {
  layouts.insert({function, std::make_unique<Layouts>(function)});
  FailureOr<FunctionOffsets> places = FunctionOffsets::of(function);
  if (failed(places))
    return failure();
  offsets.reserve(offsets.size() + places->arguments.size() + places->values.size());
  for (auto [argument, offset] : llvm::zip_equal(function.getArguments(), places->arguments)) {
    if (failed(readPort(function, argumentPort(function, argument.getArgNumber()), argument.getType(), offset)))
      return failure();
    offsets[argument] = offset;
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(readPort(function, resultPort(function, i), type, places->results[i])))
      return failure();
  return readValues(function, places->values);
}

LogicalResult ArenaLayout::readValues(func::FuncOp function, ArrayRef<int64_t> left) {
  Layouts &layouts = layoutsOf(function);
  for (Operation &op : function.front().without_terminator())
    for (OpResult result : op.getResults()) {
      if (!layouts.ownsBuffer(result))
        continue;
      if (left.empty())
        return op.emitError("M1: has no place: ") << offsetsAttr << " of its function ends before; run dt-plan-memory";
      uint64_t offset = offsets[result] = left.front();
      left = left.drop_front();
      if (offset < extent.shared && !extent.isOfSeveral(offset))
        extent.privateEnd = std::max(extent.privateEnd, alignTo(offset + bytesOf(result.getType()), unit));
    }
  if (!left.empty())
    return function.emitError("M1: ") << offsetsAttr << " has " << left.size()
                                      << " values more than there are; run dt-plan-memory";
  return success();
}

LogicalResult ArenaLayout::readPort(func::FuncOp function, PortAttr port, Type type, uint64_t at) {
  if (!port)
    return function.emitError("M1: an argument or result lacks ") << portAttr;
  auto [known, isNew] = indexOf.try_emplace(port.identity(), named.size());
  if (isNew) {
    named.push_back({port, cast<RankedTensorType>(type), at});
    if (at < extent.shared && !extent.isOfSeveral(at))
      extent.privateEnd = std::max(extent.privateEnd, endOf(named.back()));
  } else if (named[known->second].offset != at) {
    return function.emitError("M2: ") << port.describe() << " lies at " << at << ", in another function at "
                                      << named[known->second].offset;
  }
  named[known->second].stages |= StageSet::of(ownerOf(function, port));
  return success();
}

uint64_t ArenaLayout::addressOf(func::FuncOp function, Value value) {
  Layouts &layouts = layoutsOf(function);
  if (layouts.ownsBuffer(value))
    return offsetOf(value);
  const Place &place = layouts.placeOf(value);
  return offsetOf(place.root) + abi::bytesOf(elementTypeOf(value.getType()).type, place.view.offset);
}

uint64_t ArenaLayout::spaceAddress(uint64_t offset) const {
  if (isOfHost(offset))
    return abi::addressOf(hostSpace, offset - extent.bytes);
  for (const PlacedSpace &space : extent.spaces)
    if (offset >= space.base && offset < space.end())
      return abi::addressOf(space.number, offset - space.base);
  return offset < extent.shared ? abi::addressOf(privateSpace, offset)
                                : abi::addressOf(registeredSpace, offset - extent.shared);
}

Holds holdsOf(PortAttr port) {
  return port.getKind() == PortKind::Parameter ? Holds::Parameters
         : port.getKind() == PortKind::Copy    ? Holds::Copies
         : port.getKind() == PortKind::Slot    ? Holds::Slots
         : port.getKind() == PortKind::Kept    ? Holds::Kept
         : port.isGradient()                   ? Holds::Gradients
         : port.getKind() == PortKind::Cache   ? Holds::Caches
                                               : Holds::Interface;
}

std::vector<std::pair<std::string, uint64_t>> ArenaLayout::memoryUse() const {
  std::vector<HeldTensor> tensors;
  for (const PlacedTensor &tensor : named)
    tensors.push_back({tensor.offset, endOf(tensor), holdsOf(tensor.port)});
  return dtc::memoryUse(extent, tensors);
}

} // namespace dtc
