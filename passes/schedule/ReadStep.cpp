// Reads a step out of a module: how its operations depend on each other, and what they are for.
#include "passes/schedule/ReadStep.h"
#include "passes/lower/Targets.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/Stages.h"
#include "runtime/abi/timetables.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

using Kind = FlatCommand::Kind;

static Kind kindOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Kind>(op)
      .Case([](SendOp) { return Kind::Send; })
      .Case([](RecvOp) { return Kind::Receive; })
      .Case([](AwaitOp) { return Kind::Await; })
      .Case([](WaitOp) { return Kind::Wait; })
      .Case([](CollectiveOpInterface) { return Kind::Start; })
      .Case([](HostCopyOpInterface) { return Kind::Copy; })
      .Default([](Operation *other) { return isView(other) ? Kind::View : Kind::Launch; });
}

namespace {

/// The ports of a role, in the order in which the functions mention them.
class PortTable {
public:
  PortTable(ModuleOp module, ReadRole &read) : read(read) {
    if (auto parameters = module->getAttrOfType<ArrayAttr>(module_attr::parameters))
      for (auto parameter : parameters.getAsRange<ParamAttr>())
        if (!parameter.getDecays())
          withoutDecay.insert(parameter.getName());
  }

  int indexOf(func::FuncOp function, PortAttr port, Type type) {
    auto [entry, isNew] = indices.try_emplace(port.identity(), read.ports.size());
    if (isNew) {
      read.ports.push_back(port);
      FlatPort &flat = read.role.ports.emplace_back();
      flat.name = port.getName().getValue().str();
      flat.bytes = bytesOf(type);
      flat.holds = holdsOf(port);
      flat.isOfMicroBatch = port.isOfMicroBatch();
      flat.spaces = {spaceOf(port, false), spaceOf(port, true)};
    }
    read.role.ports[entry->second].stages |= StageSet::of(ownerOf(function, port));
    return entry->second;
  }

  /// Call once all ports are known.
  void finish() {
    DenseSet<StringAttr> copied;
    for (PortAttr port : read.ports)
      if (port.getKind() == PortKind::Copy)
        copied.insert(port.getName());
    using Key = std::tuple<PortKind, StringRef, bool, bool>;
    auto keyOf = [&](PortAttr port) {
      if (port.getKind() == PortKind::Kept) // before what the host knows, so that all behind that comes and goes
        return Key(PortKind::ReducedGradient, "kept", false, false);
      bool isLater = port.isOfParameter() && withoutDecay.contains(port.getName());
      return Key(port.getKind(), port.getSlot().getValue(), isLater,
                 port.isOfParameter() && !copied.contains(port.getName()));
    };
    std::map<Key, int> ranks;
    for (PortAttr port : read.ports)
      ranks[keyOf(port)] = 0;
    for (int next = 0; auto &[key, rank] : ranks)
      rank = next++;
    for (auto [port, flat] : llvm::zip_equal(read.ports, read.role.ports)) {
      flat.rank = ranks[keyOf(port)];
      auto gradient = indices.find({PortKind::Gradient, port.getName(), port.getSlot()});
      if (port.getKind() == PortKind::ReducedGradient && gradient != indices.end())
        flat.gradient = gradient->second;
    }
  }

private:
  ReadRole &read;
  DenseSet<StringAttr> withoutDecay; ///< parameters, for which an optimizer has another formula
  DenseMap<PortIdentity, int> indices;
};

/// Reads one function.
class FunctionReader {
public:
  FunctionReader(func::FuncOp func, PortTable &ports, Kernels &kernels, ReadRole::Function &read, FlatFunction &flat)
      : func(func), ports(ports), kernels(kernels), read(read), flat(flat) {}

  void run() {
    read.function = func;
    read.layouts = std::make_unique<Layouts>(func);
    flat.name = func.getName().str();
    flat.stage = dutyOf(func) ? dutyOf(func).getStage() : 0;
    for (BlockArgument argument : func.getArguments()) {
      flat.arguments.push_back(ports.indexOf(func, argumentPort(func, argument.getArgNumber()), argument.getType()));
      addValue(argument, -1);
    }
    size_t most = func.front().getOperations().size(); // there may be many thousands
    flat.commands.reserve(most);
    numbers.reserve(most);
    for (Operation &op : func.front().without_terminator())
      numberResults(&op);
    for (OpOperand &result : func.front().getTerminator()->getOpOperands())
      flat.returned.push_back({valueOf(result.get()),
                               ports.indexOf(func, resultPort(func, result.getOperandNumber()), result.get().getType())});
    for (auto [number, op] : llvm::enumerate(read.commands))
      readCommand(op, flat.commands[number]);
    readers.resize(flat.valueBytes.size());
    writers.resize(flat.valueBytes.size());
    for (auto [number, command] : llvm::enumerate(flat.commands)) {
      for (FlatOperand operand : command.operands)
        readers[operand.value].push_back(static_cast<int>(number));
      if (command.kind != Kind::View && command.kind != Kind::Wait && command.kind != Kind::Await)
        for (const FlatResult &result : command.results)
          writers[result.value].push_back(static_cast<int>(number));
    }
  }

  /// Puts what overwrites a value after all that read it.
  void orderOverwriting(const FlatRole &role) {
    for (auto [number, command] : llvm::enumerate(flat.commands))
      for (const FlatResult &result : command.results)
        if (result.written >= 0)
          comeBehindReaders(static_cast<int>(number), command.operands[result.written].value);
    DenseMap<int, int> argumentOf;
    for (auto [value, port] : llvm::enumerate(flat.arguments))
      argumentOf[port] = static_cast<int>(value);
    for (FlatReturn result : flat.returned)
      for (int port : {result.port, role.ports[result.port].gradient})
        if (auto old = argumentOf.find(port); old != argumentOf.end() && !flat.isArgument(result.value))
          for (int number : writersOf(result.value))
            comeBehindReaders(number, old->second);
  }

private:
  void addValue(Value value, int definedBy) {
    read.values[value] = static_cast<int>(flat.valueBytes.size());
    read.roots.push_back(value);
    flat.valueBytes.push_back(bytesOf(value.getType()));
    flat.definedBy.push_back(definedBy);
  }

  /// Only asked for memory that may be taken over: layouts of views take time.
  bool isWhole(Value value) {
    return read.layouts->rootOf(value) == value || read.layouts->placeOf(value).isWhole();
  }

  int valueOf(Value value) const { return read.values.lookup(read.layouts->rootOf(value)); }

  void numberResults(Operation *op) {
    auto number = static_cast<int>(read.commands.size());
    numbers[op] = number;
    read.commands.push_back(op);
    flat.commands.emplace_back().kind = kindOf(op);
    for (OpResult result : op->getResults())
      if (read.layouts->rootOf(result) == result)
        addValue(result, number);
  }

  void readCommand(Operation *op, FlatCommand &command) {
    for (Value operand : op->getOperands()) {
      command.operands.push_back({valueOf(operand), false});
      if (Operation *producer = operand.getDefiningOp())
        command.after.push_back(numbers.lookup(producer));
    }
    auto library = dyn_cast<LibraryOpInterface>(op);
    for (OpResult result : op->getResults()) {
      FlatResult &flatResult = command.results.emplace_back();
      flatResult.value = valueOf(result);
      flatResult.isRoot = read.layouts->rootOf(result) == result;
      for (unsigned operand : kernels.inPlaceOperands(op, result.getResultNumber())) {
        flatResult.inPlace.push_back(static_cast<int>(operand));
        command.operands[operand].isWhole = isWhole(op->getOperand(operand));
      }
      if (library && library.mustBeInPlace(result.getResultNumber()))
        flatResult.written = library.getInPlaceOperand(result.getResultNumber());
    }
    if (auto copy = dyn_cast<HostCopyOpInterface>(op))
      command.isToHost = copy.isToHost();
    if (command.kind == Kind::Start || command.kind == Kind::Copy)
      for (Operation *user : op->getResult(0).getUsers())
        command.users.push_back(user->hasTrait<OpTrait::IsTerminator>() ? FlatCommand::theEnd : numbers.lookup(user));
  }

  /// The commands that write into the memory of a value, or of what it is made in place of.
  SmallVector<int> writersOf(int value) const {
    SmallVector<int> all;
    for (bool goesOn = true; goesOn && !flat.isArgument(value);) {
      llvm::append_range(all, writers[value]);
      const FlatCommand &command = flat.commands[flat.definedBy[value]];
      goesOn = false;
      for (const FlatResult &result : command.results)
        if (result.value == value && result.written >= 0) {
          value = command.operands[result.written].value;
          goesOn = true;
          break;
        }
    }
    return all;
  }

  void comeBehindReaders(int number, int value) {
    for (int reader : readers[value])
      if (reader != number)
        flat.commands[number].after.push_back(reader);
  }

  func::FuncOp func;
  PortTable &ports;
  Kernels &kernels;
  ReadRole::Function &read;
  FlatFunction &flat;
  DenseMap<Operation *, int> numbers;
  std::vector<SmallVector<int, 2>> readers, writers; ///< of each value
};

} // namespace

static void readStep(ModuleOp module, int64_t number, FlatRole &role) {
  llvm::StringMap<int> functions;
  for (auto [number, function] : llvm::enumerate(role.functions))
    functions[function.name] = static_cast<int>(number);
  if (auto timetables = module->getAttrOfType<ArrayAttr>(module_attr::timetables))
    for (auto timetable : timetables.getAsRange<TimetableAttr>())
      if (timetable.getRank() == number && timetable.getName().getValue() == StringRef(abi::stepTimetable))
        for (EntryAttr entry : timetable.getEntries())
          if (auto function = functions.find(entry.getFunction().getValue()); function != functions.end())
            role.step.push_back({function->second, entry.getMicroBatch(),
                                 {entry.getPlaces().begin(), entry.getPlaces().end()}});
}

ReadRole readRole(ModuleOp module, Kernels &kernels, int64_t number, ArrayRef<func::FuncOp> functions) {
  ReadRole read;
  read.number = number;
  FlatRole &role = read.role;
  role.name = nameOfRole(module, number);
  role.unit = targetOf(module).getPlaceAlignment();
  SmallVector<uint32_t> places = placesOf(module, number);
  role.places.assign(places.begin(), places.end());
  PortTable ports(module, read);
  read.functions.resize(functions.size());
  role.functions.resize(functions.size());
  std::vector<FunctionReader> readers;
  for (auto [func, own, flat] : llvm::zip_equal(functions, read.functions, role.functions))
    readers.emplace_back(func, ports, kernels, own, flat).run();
  ports.finish();
  for (FunctionReader &reader : readers)
    reader.orderOverwriting(role);
  readStep(module, number, role);
  return read;
}

} // namespace dtc
