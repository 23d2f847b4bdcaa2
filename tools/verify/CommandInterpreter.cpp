#include "tools/verify/CommandInterpreter.h"

#include "dialect/reference/Mesh.h"
#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"

#include <bit>
#include <cmath>

using namespace mlir::dt;

namespace dtc::verify {

/// The widths of the narrowest and of the widest element type in a program.
static std::pair<uint64_t, uint64_t> widthsOf(const abi::Manifest &manifest) {
  const uint64_t usual = abi::elementType(abi::F32).bytes;
  std::pair<uint64_t, uint64_t> widths = {usual, usual};
  auto add = [&](abi::DataType type) {
    if (const abi::ElementType *row = abi::findElementType(type)) // others are refused where they are used
      widths = {std::min<uint64_t>(widths.first, row->bytes), std::max<uint64_t>(widths.second, row->bytes)};
  };
  for (const abi::Role &role : manifest.roles())
    for (const abi::Tensor &tensor : role.tensors())
      add(tensor.type());
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands()) {
      if (abi::communicates(command))
        add(command.has_start() ? command.start().type() : abi::transferOf(command).type());
      if (command.has_copy())
        add(command.copy().type());
      for (int type : command.launch().buffer_types())
        add(static_cast<abi::DataType>(type));
    }
  return widths;
}

/// Each rank's role, as the program states it.
static std::vector<int> rolesOf(const abi::Manifest &manifest, int64_t ranks) {
  std::vector<int> roles;
  for (int64_t rank = 0; rank < ranks; ++rank)
    roles.push_back(abi::roleIndexOf(manifest, rank));
  return roles;
}

CommandInterpreter::CommandInterpreter(const abi::Manifest &manifest, mlir::MLIRContext &context,
                                       std::vector<int> rolesOfRanks)
    : manifest(manifest), meshAttr(toAttribute(manifest.mesh(), context)), roles(std::move(rolesOfRanks)) {
  if (roles.empty())
    roles = rolesOf(manifest, meshAttr.getNumRanks());
  auto [narrowest, widest] = widthsOf(manifest);
  for (int role : roles) {
    auto memoryOf = [&](uint64_t bytes) { return Memory(bytes, narrowest, narrowest != widest); };
    memories.push_back({memoryOf(manifest.roles(role).arena_bytes()), memoryOf(manifest.roles(role).host_bytes())});
  }
  for (const abi::Kernel &kernel : manifest.kernels()) {
    Kernel &entry = kernels.emplace_back();
    if (kernel.library())
      entry.library = findLibraryReference(kernel.symbol());
    else
      entry.generated.emplace(kernel, manifest.target(), context);
    if (!entry.library && !entry.generated)
      throw ProgramFault("the runtime has no kernel '" + kernel.symbol() + "'");
    // Library kernels whose symbol names a specialization have code of their own; those of GPUs may have a workspace.
    bool isMade = kernel.symbol().find('$') != std::string::npos, isGpus = kernel.symbol().starts_with("dtc_cuda_");
    if (kernel.library() && ((!isMade && kernel.passes_size() > 0) || (!isGpus && kernel.scratch_bytes() > 0)))
      throw ProgramFault("kernel '" + kernel.symbol() + "' of the library is said to have functions or scratch");
  }
}

//===----------------------------------------------------------------------===//
// Running a list
//===----------------------------------------------------------------------===//

/// A rank's list, as the first entry of its role's timetables runs it.
const abi::CommandList &CommandInterpreter::listOf(int64_t rank, std::string_view name) {
  if (const abi::TimetableEntry *first = abi::firstEntryOf(roleOf(rank), name))
    return listOf(rank, *first);
  throw ProgramFault("role '" + roleOf(rank).name() + "' has no list '" + std::string(name) + "'");
}

const abi::CommandList &CommandInterpreter::listOf(int64_t rank, const abi::TimetableEntry &entry) {
  auto [known, isNew] = resolved.try_emplace({roles[rank], abi::instanceOf(entry)});
  if (isNew)
    known->second = abi::Resolver(manifest, roleOf(rank)).resolve(entry);
  return known->second;
}

/// Forgets what has been done.
void CommandInterpreter::begin() {
  if (!llvm::all_of(states, [](const Rank &state) { return state.flights.empty(); }))
    return;
  states.assign(ranks(), {});
  meetings.clear();
}

void CommandInterpreter::run(std::string_view list) {
  begin();
  for (int64_t rank = 0; rank < ranks(); ++rank)
    states[rank].tasks.push_back({&listOf(rank, list)});
  runTasks({});
}

void CommandInterpreter::runTimetable(std::string_view name, int64_t steps, const Watch &watch) {
  begin();
  std::vector<abi::Unrolled> entries; // which tasks refer to
  for (int64_t rank = 0; rank < ranks(); ++rank)
    for (const abi::TimedEntry &timed :
         entries.emplace_back(abi::timetableOf(roleOf(rank), name), steps,
                              watch.redoes ? &abi::timetableOf(roleOf(rank), abi::redoTimetable) : nullptr))
      if (!watch.takes || watch.takes(*timed.entry))
        states[rank].tasks.push_back({&listOf(rank, *timed.entry), timed});
  runTasks(watch);
}

int64_t CommandInterpreter::commandsIn(std::string_view timetable, const Watch &watch) {
  int64_t commands = 0;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    for (const abi::TimedEntry &timed :
         abi::Unrolled(abi::timetableOf(roleOf(rank), timetable), 1,
                       watch.redoes ? &abi::timetableOf(roleOf(rank), abi::redoTimetable) : nullptr))
      if (!watch.takes || watch.takes(*timed.entry))
        commands += listOf(rank, *timed.entry).commands_size();
  return commands;
}

void CommandInterpreter::runTasks(const Watch &watch) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (int64_t rank = 0; rank < ranks(); ++rank)
      progress |= advance(rank, watch);
  }
  if (llvm::any_of(states, [](const Rank &state) { return !state.tasks.empty(); }))
    reportDeadlock();
}

void CommandInterpreter::requireAllWaited() const {
  for (int64_t rank = 0; rank < ranks(); ++rank)
    for (const auto &[token, flights] : states[rank].flights)
      throw ProgramFault("rank " + std::to_string(rank) + " never waits for the " +
                         describe(*flights.front().call, manifest) + " that it starts at " + flights.front().place);
}

/// Runs a rank until it has to wait; returns whether it did anything.
bool CommandInterpreter::advance(int64_t rank, const Watch &watch) {
  Rank &state = states[rank];
  bool moved = false;
  for (; !state.tasks.empty(); state.tasks.pop_front(), state.next = 0, moved = true) {
    const Task &task = state.tasks.front();
    if (state.next == 0 && watch.enter && task.entry.entry)
      watch.enter(rank, task.entry);
    for (; state.next < task.list->commands_size(); ++state.next, moved = true) {
      try {
        if (!execute(rank, task.list->commands(state.next)))
          return moved;
      } catch (const ProgramFault &fault) {
        throw ProgramFault(placeOf(rank) + ": " + fault.what());
      }
      if (onCommand)
        onCommand();
    }
    if (watch.leave && task.entry.entry)
      watch.leave(rank, task.entry);
  }
  return moved;
}

/// False: the command has to wait for other ranks.
bool CommandInterpreter::execute(int64_t rank, const abi::Command &command) {
  if (command.has_launch())
    launch(rank, command.launch());
  else if (abi::startsCopy(command))
    startCopy(rank, command, placeOf(rank));
  else if (command.has_copy())
    copy(rank, command.copy());
  else if (abi::communicates(command))
    start(rank, command, placeOf(rank));
  else
    return tryWait(rank, command.wait().token());
  return true;
}

/// "rank 1, list 'reduce', command 7 (h.3.attn.c_proj)".
std::string CommandInterpreter::placeOf(int64_t rank) const {
  const Rank &state = states[rank];
  const abi::CommandList &list = *state.tasks.front().list;
  std::string place = "rank " + std::to_string(rank) + ", list '" + list.name() + "'";
  std::string location = abi::locationOf(manifest, list.commands(state.next));
  place += ", command " + std::to_string(state.next);
  return location.empty() ? place : place + " (" + location + ")";
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static llvm::ArrayRef<int64_t> manifestShape(const abi::Tensor &tensor) {
  return {tensor.local_shape().data(), size_t(tensor.local_shape_size())};
}

Buffer CommandInterpreter::tensorBuffer(int64_t rank, const abi::Tensor &tensor) const {
  uint64_t offset = abi::arenaOffset(roleOf(rank), tensor.address());
  return memories[rank].buffer(offset, tensor.type(), abi::elementsOf(tensor));
}

HostTensor CommandInterpreter::read(int64_t rank, const abi::Tensor &tensor) const {
  HostTensor piece(manifestShape(tensor));
  *piece.elements = tensorBuffer(rank, tensor).readAll();
  return piece;
}

void CommandInterpreter::write(int64_t rank, const abi::Tensor &tensor, const HostTensor &piece) {
  Buffer target = tensorBuffer(rank, tensor);
  if (target.size != piece.size())
    throw ProgramFault("tensor '" + tensor.name() + "' has " + std::to_string(target.size) + " elements, got " +
                       std::to_string(piece.size()));
  target.writeAll(*piece.elements);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Library kernels read rows of adjacent elements; where elements are not adjacent, the kernels work on copies. Only
/// what a kernel changed is copied back: the extents of its outputs may overlap where their elements do not, as in a
/// fused projection.
void CommandInterpreter::launchLibrary(LibraryReference reference, const LibraryLaunch &launch, size_t inputs) {
  LibraryLaunch dense = launch;
  std::vector<std::vector<double>> copies(launch.buffers.size());
  for (size_t i = 0; i < copies.size(); ++i)
    if (launch.buffers[i].kinds) {
      copies[i] = launch.buffers[i].readAll();
      dense.buffers[i] = {copies[i].data(), launch.buffers[i].size, launch.buffers[i].type};
    }
  std::vector<std::vector<double>> before = copies;
  reference(dense);
  for (size_t i = inputs; i < copies.size(); ++i)
    for (size_t j = 0; j < copies[i].size(); ++j)
      if (std::bit_cast<uint64_t>(copies[i][j]) != std::bit_cast<uint64_t>(before[i][j]))
        launch.buffers[i].write(static_cast<int64_t>(j), copies[i][j]);
}

void CommandInterpreter::launch(int64_t rank, const abi::Launch &launch) {
  if (launch.kernel() >= kernels.size())
    throw ProgramFault("launches kernel " + std::to_string(launch.kernel()) + " of " + std::to_string(kernels.size()));
  const abi::Kernel &description = manifest.kernels(launch.kernel());
  if (launch.buffers_size() != int(description.inputs() + description.outputs()) ||
      launch.buffer_bytes_size() != launch.buffers_size() || launch.buffer_types_size() != launch.buffers_size())
    throw ProgramFault("kernel '" + description.symbol() + "' is launched on " + std::to_string(launch.buffers_size()) +
                       " buffers");
  if (launch.grain() < 1)
    throw ProgramFault("kernel '" + description.symbol() + "' is launched with a grain of " +
                       std::to_string(launch.grain()));
  LibraryLaunch call;
  for (int i = 0; i < launch.buffers_size(); ++i)
    call.buffers.push_back(
        memories[rank].arena.buffer(launch.buffers(i), launch.buffer_bytes(i), launch.buffer_types(i)));
  for (const abi::Scalar &scalar : launch.scalars())
    call.scalars.push_back(valueOf(scalar, manifest.mesh(), meshAttr, rank));
  call.grid = launch.grid();
  if (launch.has_grid_count())
    call.part = countOf(rank, launch);
  const Kernel &kernel = kernels[launch.kernel()];
  if (kernel.library)
    launchLibrary(kernel.library, call, description.inputs());
  else // all inputs are read before any output is written, which in-place launches rely on
    kernel.generated->launch({meshAttr, rank, true}, call.buffers, call.scalars, call.grid, call.part);
}

/// How much of its grid a launch must run, as read from memory.
int64_t CommandInterpreter::countOf(int64_t rank, const abi::Launch &launch) const {
  double count = memories[rank].buffer(launch.grid_count(), abi::I32, 1).read(0);
  if (!(count >= 0 && count <= double(launch.grid())) || count != std::trunc(count))
    throw ProgramFault("the count of the grid of kernel '" + manifest.kernels(int(launch.kernel())).symbol() +
                       "' says " + numberText(count) + ", and the grid is " + std::to_string(launch.grid()));
  return static_cast<int64_t>(count);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The members of a command, in the order in which `Meeting` has them: a group's, or sender and receiver.
std::vector<int64_t> CommandInterpreter::membersOf(int64_t rank, const abi::Command &command) const {
  const abi::Group &named = groupOf(abi::groupOf(command), manifest);
  auto group = getGroup(meshAttr, rank, axesOf(named.axes()));
  if (!named.members().empty()) {
    auto all = std::exchange(group, {});
    for (uint32_t member : named.members())
      if (member < all.size())
        group.push_back(all[member]);
  }
  if (!llvm::is_contained(group, rank))
    throw ProgramFault("the " + describe(command, manifest) + " is none of this rank's");
  if (command.has_start())
    return {group.begin(), group.end()};
  int64_t size = static_cast<int64_t>(group.size()), self = llvm::find(group, rank) - group.begin();
  int64_t peer = group[abi::shifted(self, abi::transferOf(command).shift(), size)];
  if (peer == rank)
    throw ProgramFault("the " + describe(command, manifest) + " leads to the rank itself");
  return command.has_send() ? std::vector{rank, peer} : std::vector{peer, rank};
}

void CommandInterpreter::takeToken(const Rank &state, const abi::Command &command) const {
  if (auto other = state.flights.find(abi::tokenOf(command)); other != state.flights.end())
    throw ProgramFault("starts the " + describe(command, manifest) + " with the token of the " +
                       describe(*other->second.front().call, manifest) + ", which has not been waited for");
}

void CommandInterpreter::start(int64_t rank, const abi::Command &command, const std::string &place) {
  Rank &state = states[rank];
  uint32_t token = abi::tokenOf(command);
  bool isPart = std::exchange(state.expectsPart, command.start().more());
  if (!isPart)
    takeToken(state, command);
  std::vector<int64_t> members = membersOf(rank, command);
  int64_t size = int64_t(members.size()), me = llvm::find(members, rank) - members.begin();
  // Ranks that name the same group by other axes still meet: the key is the list of members.
  Members key{members};
  if (command.has_start())
    llvm::sort(key.ranks);
  else
    key.transfers = abi::groupOf(command);
  size_t index = state.started[key]++;
  std::deque<Meeting> &ofGroup = meetings[key];
  if (ofGroup.size() <= index)
    ofGroup.push_back({std::vector<const abi::Command *>(size), std::vector<std::string>(size),
                       std::vector<CollectiveOperand>(size)});
  Meeting &meeting = ofGroup[index];
  for (int64_t peer = 0; peer < size; ++peer)
    if (meeting.calls[peer])
      if (std::string mismatch = findMismatch(*meeting.calls[peer], command, manifest); !mismatch.empty())
        throw ProgramFault("the " + describe(command, manifest) + " meets the " +
                           describe(*meeting.calls[peer], manifest) + " of " + meeting.places[peer] + ": " + mismatch);

  Operands operands = operandsOf(memories[rank], command, size, me);
  if (command.has_start())
    requireType(command.start(), operands.source, manifest);
  if (command.start().has_counts())
    requireCounts(command.start(), operands.besideSource, members, me, manifest);
  requireApart(command, operands, manifest);
  meeting.calls[me] = &command;
  meeting.places[me] = place;
  meeting.sources[me] = {operands.source.readAll(), operands.besideSource.readAll()};
  std::vector<double> before = command.start().has_counts() ? operands.target.readAll() : std::vector<double>();
  for (const Buffer &target : {operands.target, operands.besideTarget})
    for (int64_t i = 0; i < target.size; ++i)
      target.write(i, unwritten);
  state.flights[token].push_back({&command, key, index, me, place, {}, std::move(before)});
  state.issued[key.transfers].push_back({key, index});
  settle(key.transfers, key.ranks);
}

void CommandInterpreter::copy(int64_t rank, const abi::Copy &copy) {
  Operands operands = operandsOf(memories[rank], copy);
  operands.target.writeAll(operands.source.readAll());
}

void CommandInterpreter::startCopy(int64_t rank, const abi::Command &command, const std::string &place) {
  Rank &state = states[rank];
  takeToken(state, command);
  Operands operands = operandsOf(memories[rank], command.copy());
  state.flights[abi::tokenOf(command)].push_back({&command, {}, 0, 0, place, operands.source.readAll(), {}});
  for (int64_t i = 0; i < operands.target.size; ++i)
    operands.target.write(i, unwritten);
}

void CommandInterpreter::finishCopy(int64_t rank, const Flight &flight) {
  Operands operands = operandsOf(memories[rank], flight.call->copy());
  requireUntouched(*flight.call, operands, {flight.copied, {}}, manifest);
  operands.target.writeAll(flight.copied);
}

/// A collective takes place when all its members have started it and every collective that they started before, on any
/// channel, has taken place: a device may have room for only one. Any cycle of waits is then an order in which the
/// ranks disagree. A transfer waits only for those of its own group.
void CommandInterpreter::settle(int64_t queue, std::vector<int64_t> moved) {
  auto isNext = [&](int64_t member, const std::pair<Members, size_t> &at) {
    return !states[member].issued[queue].empty() && states[member].issued[queue].front() == at;
  };
  while (!moved.empty()) {
    int64_t rank = moved.back();
    moved.pop_back();
    if (states[rank].issued[queue].empty())
      continue;
    auto at = states[rank].issued[queue].front();
    if (!llvm::all_of(at.first.ranks, [&](int64_t member) { return isNext(member, at); }))
      continue;
    meetings[at.first][at.second].happened = true;
    for (int64_t member : at.first.ranks) {
      states[member].issued[queue].pop_front();
      moved.push_back(member);
    }
  }
}

bool CommandInterpreter::tryWait(int64_t rank, uint32_t token) {
  auto &underWay = states[rank].flights;
  auto flights = underWay.find(token);
  if (flights == underWay.end())
    throw ProgramFault("waits for token " + std::to_string(token) + ", which nothing under way has");
  if (const Flight &first = flights->second.front(); first.call->has_copy()) {
    finishCopy(rank, first);
    underWay.erase(flights);
    return true;
  }
  auto meetingOf = [&](const Flight &flight) -> Meeting & { return meetings[flight.group][flight.meeting]; };
  if (!llvm::all_of(flights->second, [&](const Flight &flight) { return meetingOf(flight).happened; }))
    return false;
  for (const Flight &flight : flights->second) {
    Meeting &meeting = meetingOf(flight);
    finish(rank, flight, meeting);
    if (++meeting.waited == flight.group.ranks.size())
      meeting.sources.clear();
  }
  underWay.erase(flights);
  return true;
}

/// Called when every member has started: checks that nobody touched this rank's memory meanwhile, and stores the
/// result.
void CommandInterpreter::finish(int64_t rank, const Flight &flight, const Meeting &meeting) {
  const abi::Command &command = *flight.call;
  Operands operands = operandsOf(memories[rank], command, int64_t(flight.group.ranks.size()), flight.me);
  requireUntouched(command, operands, meeting.sources[flight.me], manifest);
  // Every member describes the same collective; the order of ranks follows the axes of this call, as for the other
  // members.
  if (command.has_start()) {
    CollectiveOperand result = combine(command.start(), meeting.sources, flight.me, flight.before);
    operands.target.writeAll(result.values);
    operands.besideTarget.writeAll(result.beside);
  } else if (command.has_recv()) {
    operands.target.writeAll(meeting.sources.front().values); // the sender's
  }
}

/// Why a collective that every member has started does not take place: "comes behind the all-reduce of v1 over tp on
/// rank 0, behind ... on rank 1".
std::string CommandInterpreter::describeOrder(const Flight &flight) const {
  std::string text = "comes";
  for (int64_t member : flight.group.ranks) {
    const auto &first = states[member].issued.at(flight.group.transfers).front();
    if (first == std::pair(flight.group, flight.meeting))
      continue;
    for (const abi::Command *call : meetings.at(first.first)[first.second].calls)
      if (call) {
        text += (text.size() > 5 ? "," : "") + std::string(" behind the ") + describe(*call, manifest) + " on rank " +
                std::to_string(member);
        break;
      }
  }
  return text + ": ranks start what they share in different orders";
}

void CommandInterpreter::reportDeadlock() const {
  std::string report = "deadlock:";
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const Rank &state = states[rank];
    if (state.tasks.empty())
      continue;
    const auto &parts = state.flights.at(state.tasks.front().list->commands(state.next).wait().token());
    const Flight &flight =
        *llvm::find_if(parts, [&](const Flight &part) { return !meetings.at(part.group)[part.meeting].happened; });
    std::string missing;
    for (int64_t other : flight.group.ranks) {
      auto started = states[other].started.find(flight.group);
      size_t count = started == states[other].started.end() ? 0 : started->second;
      if (count <= flight.meeting)
        missing += (missing.empty() ? "" : ", ") + std::to_string(other);
    }
    report += "\n  " + placeOf(rank) + " waits for the " + describe(*flight.call, manifest) + ", which ";
    report += missing.empty() ? describeOrder(flight) : "rank " + missing + " does not start";
  }
  throw ProgramFault(report);
}

} // namespace dtc::verify
