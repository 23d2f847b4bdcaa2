#include "passes/pipelines/search/PlannedStep.h"

#include "dialect/IR/Names.h"
#include "passes/schedule/Spaces.h"
#include "passes/schedule/emit/Channels.h"
#include "passes/schedule/launches/JoinLaunches.h"
#include "passes/schedule/launches/JoinStarts.h"
#include "runtime/abi/addresses.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace dtc {

using timing::Action;
namespace {

/// Writes one role's part of a step.
class RoleWriter {
public:
  RoleWriter(const PlannedRole &planned, std::map<std::string, uint32_t> &groups, std::vector<Meeting> &meetings,
             timing::Step &step, timing::StepTables &tables)
      : planned(planned), role(*planned.role), groups(groups), meetings(meetings), step(step), tables(tables), firstList(static_cast<uint32_t>(step.lists.size())) {}

  void write() {
    for (size_t number = 0; number < role.functions.size(); ++number)
      writeList(number);
    timing::StepRole &out = step.roles.emplace_back();
    out.name = role.name;
    for (const FlatEntry &entry : role.step) {
      timing::StepEntry &written = out.entries.emplace_back();
      written.list = firstList + static_cast<uint32_t>(entry.function);
      written.microBatch = entry.microBatch;
      written.stage = static_cast<uint32_t>(role.functions[entry.function].stage);
      for (size_t space = 0; space < entry.places.size(); ++space)
        written.places.push_back(role.places[space] > 1 ? entry.places[space] : 0);
    }
    step.tokens = std::max(step.tokens, nextToken);
  }

private:
  void writeList(size_t number) {
    function = number;
    const FlatFunction &flat = role.functions[number];
    list = &step.lists.emplace_back();
    list->name = flat.name;
    startTokens.clear();
    findParts();
    std::vector<int> run; // launches with nothing else between
    for (int each : planned.orders[number]) {
      const FlatCommand &command = flat.commands[each];
      if (!command.isEmitted)
        continue;
      if (command.kind == FlatCommand::Kind::Launch && !command.isLibrary) {
        run.push_back(each);
        continue;
      }
      writeRun(std::exchange(run, {}));
      writeCommand(each, command);
    }
    writeRun(run);
  }

  void writeRun(const std::vector<int> &run) {
    const FlatFunction &flat = role.functions[function];
    LaunchRun launches;
    for (int each : run)
      launches.formulas.push_back(flat.commands[each].formula);
    launches.buffersOf = [&](size_t which) { return buffersOf(flat.commands[run[which]]); };
    for (const std::vector<int> &group : joinLaunches(launches)) {
      abi::Work all;
      for (int which : group) {
        const abi::Work &work = flat.commands[run[which]].work;
        all.set_kind(std::max(all.kind(), work.kind()));
        all.set_flops(all.flops() + work.flops());
        all.set_bytes_read(all.bytes_read() + work.bytes_read());
        all.set_bytes_written(all.bytes_written() + work.bytes_written());
      }
      addLaunch(run[group.front()], all);
    }
  }

  std::vector<LaunchBuffer> buffersOf(const FlatCommand &command) const {
    std::vector<LaunchBuffer> buffers;
    for (const FlatBuffer &each : command.buffers) {
      uint64_t begin = planned.offsets[function][static_cast<size_t>(each.value)] + each.offset;
      buffers.push_back({begin, begin + each.bytes, (uint64_t(each.value) << abi::OffsetBits) + each.offset,
                         each.isScalar, each.isDense, each.isWritten});
    }
    return buffers;
  }

  void addLaunch(int number, const abi::Work &work) {
    const FlatCommand &command = role.functions[function].commands[number];
    add(number, {.kind = Action::Kind::Launch,
                 .index = tables.add(timing::KernelWork{work.kind(), command.type, work.flops(),
                                                        static_cast<double>(work.bytes_read()) +
                                                            static_cast<double>(work.bytes_written())})});
  }

  void writeCommand(int number, const FlatCommand &command) {
    switch (command.kind) {
    case FlatCommand::Kind::View:
      return;
    case FlatCommand::Kind::Launch:
      return addLaunch(number, command.work);
    case FlatCommand::Kind::Start:
      if (parts[static_cast<size_t>(number)]) // the first part stands for all
        return;
      startTokens[number] = nextToken;
      add(number, {.kind = Action::Kind::Start, .index = moveOf(number, command), .token = nextToken});
      if (command.isAwaited)
        add(number, {.kind = Action::Kind::Wait, .token = nextToken});
      ++nextToken;
      return;
    case FlatCommand::Kind::Copy:
      startTokens[number] = nextToken;
      return add(number, {.kind = Action::Kind::StartCopy,
                          .index = tables.add(timing::KernelWork{
                              abi::Work::MOVEMENT, command.type, 0,
                              static_cast<double>(command.work.bytes_read() + command.work.bytes_written())}),
                          .token = nextToken++,
                          .channel = copyChannelOf(command.isToHost),
                          .isOfHost = true});
    case FlatCommand::Kind::Wait:
      if (parts[static_cast<size_t>(command.after.front())])
        return;
      return add(number, {.kind = Action::Kind::Wait, .token = startTokens.at(command.after.front())});
    case FlatCommand::Kind::Send:
    case FlatCommand::Kind::Receive:
      return add(number, {.kind = command.kind == FlatCommand::Kind::Send ? Action::Kind::Send : Action::Kind::Receive,
                          .index = moveOf(number, command),
                          .token = tokenOf(command.port),
                          .tokenSpace = role.ports[static_cast<size_t>(command.port)].spaces[1],
                          .shift = static_cast<int32_t>(role.moves[static_cast<size_t>(command.move)].shift)});
    case FlatCommand::Kind::Await:
      return add(number, {.kind = Action::Kind::Wait,
                          .token = tokenOf(command.port),
                          .tokenSpace = role.ports[static_cast<size_t>(command.port)].spaces[1]});
    }
  }

  void add(int number, Action action) {
    action.direction = role.functions[function].commands[number].direction;
    action.command = static_cast<uint32_t>(number);
    list->actions.push_back(action);
  }

  uint32_t tokenOf(int port) {
    auto [token, isNew] = portTokens.try_emplace(port, nextToken);
    nextToken += isNew;
    return token->second;
  }

  /// Finds which of the function's starts are parts of the one before.
  void findParts() {
    const std::vector<FlatCommand> &commands = role.functions[function].commands;
    std::vector<StartEvent> events;
    for (int number : planned.orders[function]) {
      const FlatCommand &command = commands[static_cast<size_t>(number)];
      if (command.isView())
        continue;
      if (command.kind == FlatCommand::Kind::Start)
        events.push_back({StartEvent::Kind::Start, number, command.bucket});
      else if (command.kind == FlatCommand::Kind::Wait &&
               commands[static_cast<size_t>(command.after.front())].kind == FlatCommand::Kind::Start)
        events.push_back({StartEvent::Kind::Wait, command.after.front()});
      else
        events.push_back({});
    }
    parts = joinStarts(events, commands.size());
    payloads.clear();
    int first = -1;
    for (const StartEvent &event : events) {
      if (event.kind != StartEvent::Kind::Start)
        continue;
      if (!parts[static_cast<size_t>(event.start)])
        first = event.start;
      payloads[first] += role.moves[static_cast<size_t>(commands[static_cast<size_t>(event.start)].move)].payload;
    }
  }

  /// Groups come in the order in which commands first name them.
  uint32_t moveOf(int number, const FlatCommand &command) {
    const FlatMove &move = role.moves[static_cast<size_t>(command.move)];
    auto [group, isNew] = groups.try_emplace(move.purpose + "\n" + move.group.SerializeAsString(), step.groups.size());
    if (isNew) {
      step.groups.push_back(move.group);
      meetings.push_back(meetingOf(move.purpose, move.group));
    }
    auto all = payloads.find(number); // for a start: of all its parts
    return tables.add(
        timing::Move{group->second, move.kind, move.type, all == payloads.end() ? move.payload : all->second});
  }

  const PlannedRole &planned;
  const FlatRole &role;
  std::map<std::string, uint32_t> &groups;
  std::vector<Meeting> &meetings; ///< of the groups
  timing::Step &step;
  timing::StepTables &tables;
  uint32_t firstList;
  size_t function = 0;
  timing::StepList *list = nullptr;
  std::map<int, uint32_t> startTokens, portTokens; ///< by command of the list, and by port
  std::vector<bool> parts;                         ///< of the list's commands: parts of the start before
  std::map<int, double> payloads;                  ///< of the list's starts, with all their parts
  uint32_t nextToken = 0;
};

} // namespace

timing::Step plannedStep(const Plan &plan, const abi::Mesh &mesh) {
  timing::Step step;
  step.mesh = mesh;
  timing::StepTables tables(step);
  std::map<std::string, uint32_t> groups;
  std::vector<Meeting> meetings;
  for (const PlannedRole &planned : plan.roles)
    RoleWriter(planned, groups, meetings, step, tables).write();
  for (auto [index, channel] : llvm::enumerate(channelsOf(meetings)))
    step.groups[index].set_channel(channel);
  step.roleOf = rolesOfRanks(mesh, plan.roles.size());
  return step;
}

std::vector<int> rolesOfRanks(const abi::Mesh &mesh, size_t roles) {
  int64_t ranks = 1, behind = 1; // ranks, and those that differ only in the axes after the pipeline's
  for (const abi::Axis &axis : mesh.axes()) {
    ranks *= axis.size();
    behind = axis.name() == mlir::dt::pipelineAxis ? 1 : behind * axis.size();
  }
  std::vector<int> roleOf;
  for (int64_t rank = 0; rank < ranks; ++rank)
    roleOf.push_back(static_cast<int>(rank / behind % static_cast<int64_t>(roles)));
  return roleOf;
}

} // namespace dtc
