#include "runtime/executor/executor.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/volume.h"
#include "runtime/executor/decoded.h"
#include "runtime/executor/validate.h"
#include "runtime/support/error.h"
#include "runtime/support/now.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace dtc {

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Executor::Executor(const abi::Manifest &manifest, Communicator &communicator, Device &device, Memory &memory,
                   Memory *hostMemory)
    : program(manifest), ownRole(abi::roleOf(manifest, communicator.rank())), peers(communicator), ownDevice(device),
      ownMemory(memory), ownHostMemory(hostMemory) {
  if (memory.bytes() != ownRole.arena_bytes() || memory.sharedBegin() != ownRole.shared_begin())
    throw Error("the arena has " + std::to_string(memory.bytes()) + " bytes, the program's role needs " +
                std::to_string(ownRole.arena_bytes()));
  if (uint64_t bytes = hostMemory ? hostMemory->bytes() : 0; bytes != ownRole.host_bytes())
    throw Error("there are " + std::to_string(bytes) + " bytes of the host's memory, the program's role needs " +
                std::to_string(ownRole.host_bytes()));
  validateSpaces(ownRole);
  for (const abi::Tensor &tensor : ownRole.tensors())
    addTensor(tensor);
  validateCommands(program, ownRole, listsOf(program));
  decodeLists();
}

void Executor::decodeLists() {
  abi::Resolver resolver(program, ownRole);
  Decoder decoder(*this);
  for (const abi::Timetable &timetable : ownRole.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
      for (int64_t step = 0; step < abi::stepsOfTurn(entry); ++step) {
        abi::TimetableEntry placed = abi::inStep(entry, step);
        std::unique_ptr<List> &list = lists[abi::instanceOf(placed)];
        if (!list)
          list = decoder.decode(resolved.emplace_back(resolver.resolve(placed)));
      }
    });
}

Executor::~Executor() { ownDevice.abandonCopies(); }

std::byte *Executor::locate(uint64_t address) const {
  return abi::isOfHost(address) ? ownHostMemory->base() + (address - abi::HostBegin) : ownMemory.base() + address;
}

void Executor::addTensor(const abi::Tensor &tensor) {
  validatePlace(tensor, ownRole);
  // A parameter's moments and gradients have the same name; a look-up by name finds the parameter itself.
  bool byName = tensor.kind() == abi::Tensor::PARAMETER || tensor.kind() == abi::Tensor::INPUT ||
                tensor.kind() == abi::Tensor::OUTPUT;
  if (byName && !tensors.emplace(tensor.name(), &tensor).second)
    throw Error(ExitCode::BadInput, "the program has two tensors named '" + tensor.name() + "'; compile it again");
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

const abi::TimetableEntry &Executor::entryOf(std::string_view list) const {
  if (const abi::TimetableEntry *first = abi::firstEntryOf(ownRole, list))
    return *first;
  throw Error("the program has no list '" + std::string(list) + "'");
}

Executor::List &Executor::findList(const abi::TimetableEntry &entry) const {
  auto list = lists.find(abi::instanceOf(entry));
  if (list == lists.end())
    throw Error("the program does not run list '" + entry.list() + "' in stage " + std::to_string(entry.stage()) +
                " and in these places");
  return *list->second;
}

void Executor::observe(Observer *watcher) {
  observer = watcher;
  peers.askForTimes(watcher != nullptr);
  settleTimes(ownDevice.takeMoments()); // left from a list that failed
  seen.clear();
}

/// Mark numbers are valid until the moments are taken, so this gives commands in progress the times instead.
void Executor::settleTimes(const std::vector<int64_t> &moments) {
  for (std::vector<Flight> &parts : flights)
    for (Flight &flight : parts)
      if (flight.times && std::exchange(flight.areMoments, false))
        for (int64_t *moment : {&flight.times->begin, &flight.times->end})
          *moment = moments.at(static_cast<size_t>(*moment));
}

/// Reports the commands of the list that has run.
void Executor::report() {
  std::vector<int64_t> moments = ownDevice.takeMoments();
  settleTimes(moments);
  for (const Over &over : std::exchange(seen, {})) {
    auto timeOf = [&](int64_t value) { return over.areMoments ? moments.at(static_cast<size_t>(value)) : value; };
    observer->executed({*over.command->command, over.list->name, over.command->index, timeOf(over.begin),
                        timeOf(over.end), over.isStart});
  }
}

void Executor::startCopy(const List &list, const Decoded &command) {
  uint32_t channel = command.command->copy().channel();
  auto mark = [&] { return observer ? static_cast<int64_t>(ownDevice.markCopies(channel)) : 0; };
  int64_t begin = mark();
  Flight flight{.list = &list, .command = &command};
  flight.copy = ownDevice.startCopy(command.target, command.copied, command.bytes, channel);
  if (observer)
    flight.times = std::make_shared<CommandTimes>(begin, mark());
  flights[command.flight] = {std::move(flight)};
}

void Executor::startExchange(const List &list, const Decoded &command) {
  awaitDevice();
  if (!command.isPart)
    flights[command.flight].clear();
  Flight flight{.list = &list, .command = &command, .handle = peers.start(*command.group, *command.command)};
  if (observer && peers.capabilities().deviceOrder)
    flight.times = flight.handle.times;
  flights[command.flight].push_back(std::move(flight));
  hasStarted = true;
}

namespace {
/// Adds its lifetime to a sum.
class Lasting {
public:
  explicit Lasting(int64_t &sum) : sum(sum) {}
  ~Lasting() { sum += now() - begin; }
  Lasting(const Lasting &) = delete;
  Lasting &operator=(const Lasting &) = delete;

private:
  int64_t &sum, begin = now();
};
} // namespace

namespace {
/// Parts of one command finish together. Each is reported with a share of the time proportional to its bytes, one after
/// the other, so that the times add up to the total.
class SharedTime {
public:
  void add(const abi::Command &part) { bytes += abi::bytesEach(part); }
  CommandTimes of(const abi::Command &part, const CommandTimes &whole) {
    if (bytes == 0)
      return whole;
    auto at = [&](int64_t done) {
      return whole.begin + static_cast<int64_t>(static_cast<double>(whole.end - whole.begin) *
                                                static_cast<double>(done) / static_cast<double>(bytes));
    };
    int64_t before = std::exchange(told, told + abi::bytesEach(part));
    return {at(before), at(told)};
  }

private:
  int64_t bytes = 0, told = 0;
};
} // namespace

/// Waits for a token's copy, or for its parts of a communication.
void Executor::awaitFlights(const Decoded &wait) {
  Lasting waiting(exchangeNanoseconds);
  bool areTold = !peers.capabilities().deviceOrder; // the transport reports times, with or without an observer
  SharedTime shared;
  for (const Flight &flight : flights[wait.flight])
    if (!flight.isCopy())
      shared.add(*flight.command->command);
  for (const Flight &flight : flights[wait.flight]) {
    CommandTimes times;
    if (flight.isCopy()) {
      ownDevice.awaitCopy(flight.copy);
    } else {
      WaitingNote waits(peers.whereabouts());
      times = shared.of(*flight.command->command, peers.wait(flight.handle));
    }
    if (observer && flight.times)
      seen.push_back({flight.list, flight.command, flight.times->begin, flight.times->end, flight.areMoments});
    else if (observer && areTold && !flight.isCopy())
      seen.push_back({flight.list, flight.command, times.begin, times.end, /*areMoments=*/false});
  }
}

/// Runs one command and records what is over by then.
void Executor::execute(const List &list, const Decoded &command) {
  peers.whereabouts().enter({list.number, command.index});
  auto mark = [&] { return observer ? static_cast<int64_t>(ownDevice.mark()) : 0; };
  auto note = [&](const List &list, const Decoded &command, CommandTimes times, bool areMoments) {
    if (observer)
      seen.push_back({&list, &command, times.begin, times.end, areMoments});
  };
  int64_t begin = mark();
  switch (command.kind) {
  case Decoded::Launch:
    handOver();
    if (command.gridCount)
      ownDevice.launchCounted(command.kernel, command.buffers, command.scalars, command.grid, command.grain,
                              command.gridCount);
    else
      ownDevice.launch(command.kernel, command.buffers, command.scalars, command.grid, command.grain);
    break;
  case Decoded::Copy:
    handOver();
    ownDevice.copy(command.target, command.copied, command.bytes);
    break;
  case Decoded::StartAndWait: {
    awaitDevice();
    Lasting waiting(exchangeNanoseconds);
    WaitingNote waits(peers.whereabouts());
    CommandTimes times = peers.run(*command.group, *command.command);
    note(list, command, times, peers.capabilities().deviceOrder);
    return;
  }
  case Decoded::Start:
  case Decoded::StartCopy:
    command.kind == Decoded::Start ? startExchange(list, command) : startCopy(list, command);
    if (observer)
      seen.push_back({&list, &command, begin, mark(), /*areMoments=*/true, /*isStart=*/true});
    return;
  case Decoded::Wait:
    awaitFlights(command);
    break;
  }
  note(list, command, {begin, mark()}, /*areMoments=*/true);
}

std::string describePlace(const abi::Manifest &manifest, int rank, const CommandPlace &place) {
  if (!place.isInList())
    return "no list";
  if (place.list >= uint32_t(manifest.lists_size()) ||
      place.command >= uint32_t(manifest.lists(int(place.list)).commands_size()))
    return "an unknown place";
  std::string name = manifest.lists(int(place.list)).name(), location;
  const abi::Role &role = abi::roleOf(manifest, rank);
  if (const abi::TimetableEntry *entry = abi::firstEntryOf(role, name)) {
    abi::CommandList list = abi::Resolver(manifest, role).resolve(*entry);
    location = abi::locationOf(manifest, list.commands(int(place.command)));
  }
  return "list '" + name + "', command " + std::to_string(place.command) +
         (location.empty() ? "" : " (" + location + ")");
}

/// Calls after(command) after each command; the one loop behind run() and runChecked().
template <typename After> void Executor::walk(const abi::TimetableEntry &entry, After after) {
  const List &list = findList(entry);
  for (const Decoded &command : list.commands) {
    executeOrTell(list, command);
    after(command);
  }
  handOver();
  peers.whereabouts().enter({});
  if (observer)
    report();
}

void Executor::executeOrTell(const List &list, const Decoded &command) {
  try {
    execute(list, command);
  } catch (const DeviceError &error) {
    throw Error(error.exitCode(), describePlace(program, rank(), {list.number, command.index}) + ": " + error.what());
  }
}

/// The first time, each command is given separately. The second time, a device that can records them. From then on they
/// are given as one sequence.
void Executor::run(const List &list, Stretch &stretch) {
  bool notes = stretch.isRepeatable && !stretch.sequence && stretch.wasRun && ownDevice.beginSequence();
  if (!stretch.sequence)
    for (size_t i = stretch.begin; i < stretch.end; ++i)
      executeOrTell(list, list.commands[i]);
  stretch.wasRun = true;
  if (notes)
    stretch.sequence = ownDevice.endSequence();
  if (!stretch.sequence)
    return;
  handOver();
  peers.whereabouts().enter({list.number, list.commands[stretch.begin].index});
  ownDevice.give(stretch.sequence);
}

void Executor::run(const abi::TimetableEntry &entry) {
  Lasting running(runNanoseconds);
  if (observer) // which needs each command separately
    return walk(entry, [](const Decoded &) {});
  List &list = findList(entry);
  for (Stretch &stretch : list.stretches)
    run(list, stretch);
  handOver();
  peers.whereabouts().enter({});
}

//===----------------------------------------------------------------------===//
// Looking for non-finite values
//===----------------------------------------------------------------------===//

/// The byte offset of the first element that is NaN or infinite.
static std::optional<size_t> firstNonFinite(const abi::ElementType &type, std::span<const std::byte> values) {
  for (size_t at = 0; at < values.size(); at += type.bytes)
    if (!abi::isFiniteBits(type, abi::readBits(type, values.data() + at)))
      return at;
  return std::nullopt;
}

std::optional<NonFinite> Executor::findNonFinite(const Decoded &command) const {
  const abi::Launch &launch = command.command->launch();
  if (launch.has_grid_count()) // the rest of its outputs may hold anything; commands that read it will show it
    return std::nullopt;
  const abi::Kernel &kernel = program.kernels(launch.kernel());
  uint32_t firstOutput = launch.buffers_size() - kernel.outputs();
  std::vector<std::byte> piece;
  for (uint32_t output = 0; output < kernel.outputs(); ++output) {
    const abi::ElementType &type = abi::elementType(launch.buffer_types(firstOutput + output));
    if (!type.isFloating())
      continue;
    const auto *address = static_cast<const std::byte *>(command.buffers[firstOutput + output]);
    uint64_t bytes = launch.buffer_bytes(firstOutput + output) / type.bytes * type.bytes;
    for (uint64_t begin = 0; begin < bytes; begin += Device::PieceBytes) {
      piece.resize(std::min(Device::PieceBytes, bytes - begin));
      ownDevice.read(piece, address + begin);
      std::optional<size_t> at = firstNonFinite(type, piece);
      if (!at)
        continue;
      return NonFinite{command.index,
                       output,
                       static_cast<int64_t>((begin + *at) / type.bytes),
                       static_cast<float>(abi::readElement(type, piece.data() + *at)),
                       kernel.symbol(),
                       abi::locationOf(program, *command.command)};
    }
  }
  return std::nullopt;
}

std::optional<NonFinite> Executor::runChecked(const abi::TimetableEntry &entry) {
  std::optional<NonFinite> first;
  walk(entry, [&](const Decoded &command) {
    if (!first && command.kind == Decoded::Launch)
      first = findNonFinite(command);
  });
  return first;
}

//===----------------------------------------------------------------------===//
// Looking at everything that is written
//===----------------------------------------------------------------------===//

void Executor::readAt(uint64_t address, std::span<std::byte> bytes) const {
  if (!abi::isOfHost(address))
    return ownDevice.read(bytes, locate(address));
  ownDevice.wait(ownDevice.record());
  std::memcpy(bytes.data(), locate(address), bytes.size());
}

void Executor::runShown(const abi::TimetableEntry &entry, const Written &show) {
  std::vector<std::byte> piece;
  auto showWritten = [&](const Decoded &at, const abi::Command &done) {
    abi::forEachWritten(program, done, [&](uint64_t offset, uint64_t bytes) {
      for (uint64_t begin = 0; begin < bytes; begin += Device::PieceBytes) {
        piece.resize(std::min(Device::PieceBytes, bytes - begin));
        readAt(offset + begin, piece);
        show(at.index, piece);
      }
    });
  };
  walk(entry, [&](const Decoded &command) {
    if (command.kind == Decoded::Wait)
      for (const Flight &flight : flights[command.flight])
        showWritten(command, *flight.command->command);
    else if (command.kind != Decoded::Start && command.kind != Decoded::StartCopy) // which have written nothing yet
      showWritten(command, *command.command);
  });
}

//===----------------------------------------------------------------------===//
// Named tensors
//===----------------------------------------------------------------------===//

const abi::Tensor &Executor::tensor(std::string_view name) const {
  auto tensor = tensors.find(name);
  if (tensor == tensors.end())
    throw Error("the program has no tensor '" + std::string(name) + "'");
  return *tensor->second;
}

/// The address of a tensor of that type and of `elements` elements.
std::byte *Executor::placeOf(const abi::Tensor &tensor, abi::DataType type, size_t elements, uint32_t place) const {
  if (tensor.type() != type)
    throw Error("the program's tensor '" + tensor.name() + "' holds " + abi::nameOf(tensor.type()) + " instead of " +
                abi::nameOf(type));
  if (auto count = static_cast<size_t>(abi::elementsOf(tensor)); count != elements)
    throw Error("the program's tensor '" + tensor.name() + "' has " + std::to_string(count) + " elements instead of " +
                std::to_string(elements));
  return ownMemory.base() + abi::arenaOffset(ownRole, tensor.address(), place);
}

template <typename T> std::vector<T> Executor::read(const abi::Tensor &tensor, abi::DataType type) const {
  std::vector<T> values(static_cast<size_t>(abi::elementsOf(tensor)));
  std::byte *place = placeOf(tensor, type, values.size());
  ownDevice.read(std::as_writable_bytes(std::span(values)), place);
  return values;
}

std::vector<float> Executor::floats(std::string_view name) const { return read<float>(tensor(name), abi::F32); }

std::vector<int32_t> Executor::integers(std::string_view name) const { return read<int32_t>(tensor(name), abi::I32); }

void Executor::write(const abi::Tensor &tensor, std::span<const float> values, uint32_t place) {
  ownDevice.write(placeOf(tensor, abi::F32, values.size(), place), std::as_bytes(values));
}

void Executor::write(const abi::Tensor &tensor, std::span<const int32_t> values, uint32_t place) {
  ownDevice.write(placeOf(tensor, abi::I32, values.size(), place), std::as_bytes(values));
}

float Executor::scalar(std::string_view name) const {
  float value;
  ownDevice.read(std::as_writable_bytes(std::span(&value, 1)), placeOf(tensor(name), abi::F32, 1));
  return value;
}

void Executor::setScalar(std::string_view name, float value) { write(tensor(name), std::span(&value, 1)); }

} // namespace dtc
