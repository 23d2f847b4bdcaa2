// Reads a step out of a program.
#include "timing/events/step.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "runtime/support/error.h"

#include <algorithm>

namespace dtc::timing {

uint32_t StepTables::add(const KernelWork &work) {
  auto [entry, isNew] = works.try_emplace({work.kind, work.type, work.flops, work.bytes}, step.works.size());
  if (isNew)
    step.works.push_back(work);
  return entry->second;
}

uint32_t StepTables::add(const Move &move) {
  auto [entry, isNew] = moves.try_emplace({move.group, move.kind, move.type, move.payload}, step.moves.size());
  if (isNew)
    step.moves.push_back(move);
  return entry->second;
}

/// The element type that decides how fast a launch is: the narrowest floating-point type of its operands.
static abi::DataType typeOf(const abi::Launch &launch) {
  const abi::ElementType *narrowest = nullptr;
  for (int type : launch.buffer_types())
    if (const abi::ElementType *row = abi::findElementType(type); row && row->isFloating())
      if (!narrowest || row->bytes < narrowest->bytes)
        narrowest = row;
  return narrowest ? narrowest->type : abi::F32;
}

KernelWork workOf(const abi::Command &command) {
  if (command.has_launch()) {
    const abi::Work &work = command.work();
    return {work.kind(), typeOf(command.launch()), work.flops(),
            static_cast<double>(work.bytes_read()) + static_cast<double>(work.bytes_written())};
  }
  const abi::Copy &copy = command.copy();
  return {abi::Work::MOVEMENT, copy.type(), 0,
          2 * static_cast<double>(abi::bytesOf(copy.type(), static_cast<uint64_t>(copy.elements())))};
}

namespace {

class Reader {
public:
  Reader(const abi::Manifest &manifest, Step &step) : manifest(manifest), step(step), tables(step) {}

  void readLists() {
    for (const abi::CommandList &list : manifest.lists()) {
      numbers.emplace(list.name(), static_cast<uint32_t>(step.lists.size()));
      StepList &read = step.lists.emplace_back();
      read.name = list.name();
      read.duty = list.duty();
      for (int number = 0; number < list.commands_size(); ++number)
        readCommand(list, number, read);
    }
  }

  void readRole(const abi::Role &role, std::string_view timetable, int64_t steps) {
    StepRole &read = step.roles.emplace_back();
    read.name = role.name();
    for (const abi::TimedEntry &timed : abi::unroll(abi::timetableOf(role, timetable), steps))
      read.entries.push_back({numbers.at(timed.entry->list()),
                              timed.entry->has_micro_batch() ? timed.entry->micro_batch() : -1,
                              timed.entry->stage(),
                              {timed.entry->places().begin(), timed.entry->places().end()}});
  }

private:
  void readCommand(const abi::CommandList &list, int number, StepList &read) {
    const abi::Command &command = list.commands(number);
    Action action{.direction = command.direction(), .command = static_cast<uint32_t>(number)};
    if (command.has_launch() || command.has_copy()) {
      action.kind = command.has_launch()       ? Action::Kind::Launch
                    : abi::startsCopy(command) ? Action::Kind::StartCopy
                                               : Action::Kind::Copy;
      action.index = tables.add(workOf(command));
      action.channel = command.copy().channel();
      action.isOfHost = isOfHost(command.copy().input()) || isOfHost(command.copy().output());
    } else if (command.has_wait()) {
      action.kind = Action::Kind::Wait;
    } else {
      if (abi::isPart(list, number))
        return; // the first part stands for all
      readMove(list, number, action);
    }
    if (action.kind != Action::Kind::Launch && action.kind != Action::Kind::Copy) {
      action.token = abi::tokenOf(command);
      action.tokenSpace = abi::tokenSpaceOf(command);
      step.tokens = std::max(step.tokens, action.token + 1);
    }
    read.actions.push_back(action);
  }

  /// Spaces of one number are of one kind in all roles that share a list.
  bool isOfHost(uint64_t address) const {
    auto space = static_cast<int>(abi::spaceOf(address));
    return std::any_of(manifest.roles().begin(), manifest.roles().end(), [&](const abi::Role &role) {
      return space < role.spaces_size() && role.spaces(space).kind() == abi::Space::HOST;
    });
  }

  void readMove(const abi::CommandList &list, int number, Action &action) {
    const abi::Command &command = list.commands(number);
    Move move{.group = abi::groupOf(command)};
    if (command.has_start()) {
      action.kind = Action::Kind::Start;
      move.kind = command.start().kind();
      move.type = command.start().type();
      int64_t members = abi::membersOf(manifest.groups(static_cast<int>(move.group)));
      for (int part = number;; ++part) { // of a bucket
        move.payload += abi::payloadBytes(list.commands(part).start(), members);
        if (!list.commands(part).start().more())
          break;
      }
    } else {
      action.kind = command.has_send() ? Action::Kind::Send : Action::Kind::Receive;
      action.shift = static_cast<int32_t>(abi::transferOf(command).shift());
      move.payload = static_cast<double>(abi::bytesEach(command));
    }
    action.index = tables.add(move);
  }

  const abi::Manifest &manifest;
  Step &step;
  StepTables tables;
  std::map<std::string_view, uint32_t> numbers; ///< of lists, by name
};

} // namespace

Step readStep(const abi::Manifest &manifest, std::string_view timetable, int64_t steps) {
  if (steps == 1 && abi::stepsAhead(manifest, timetable) > 0)
    throw Error(ExitCode::BadInput,
                "the program's steps overlap, and what happens in one by itself says little about many in a row; 'dtc "
                "inspect --cluster' says how long a step takes");
  Step step;
  step.mesh = manifest.mesh();
  step.groups.assign(manifest.groups().begin(), manifest.groups().end());
  Reader reader(manifest, step);
  reader.readLists();
  for (const abi::Role &role : manifest.roles())
    reader.readRole(role, timetable, steps);
  for (int rank = 0; rank < Mesh(manifest.mesh()).ranks(); ++rank)
    step.roleOf.push_back(abi::roleIndexOf(manifest, rank));
  return step;
}

} // namespace dtc::timing
