#include "runtime/abi/judged.h"

#include "runtime/abi/commands.h"

#include <initializer_list>
#include <string_view>

namespace dtc::abi {

namespace {

/// Hashes a sequence of numbers and texts.
class Hash {
public:
  void add(std::initializer_list<uint64_t> numbers) {
    for (uint64_t number : numbers)
      value = (value ^ number) * 0x9e3779b97f4a7c15u, value ^= value >> 29;
  }
  void add(std::string_view text) {
    add({text.size()});
    for (char letter : text)
      add({static_cast<uint8_t>(letter)});
  }

  uint64_t value = 0xcbf29ce484222325u;
};

} // namespace

static void addGroups(Hash &hash, const Manifest &manifest) {
  hash.add({uint64_t(manifest.mesh().axes_size()), uint64_t(manifest.groups_size())});
  for (const Axis &axis : manifest.mesh().axes()) {
    hash.add(axis.name());
    hash.add({uint64_t(axis.size())});
  }
  for (const Group &group : manifest.groups()) {
    hash.add({group.channel(), uint64_t(group.axes_size()), uint64_t(group.members_size())});
    for (const AxisRef &axis : group.axes()) {
      hash.add(axis.axis());
      hash.add({uint64_t(axis.pre()), uint64_t(axis.size())});
    }
    for (uint32_t member : group.members())
      hash.add({member});
  }
}

static void addEntry(Hash &hash, const TimetableEntry &entry) {
  hash.add(entry.list());
  hash.add({uint64_t(entry.micro_batch()), entry.stage(), uint64_t(entry.step()), entry.beside(),
            uint64_t(entry.places_size())});
  for (uint32_t place : entry.places())
    hash.add({place});
  hash.add({uint64_t(entry.turns_size())});
  for (uint32_t turns : entry.turns())
    hash.add({turns});
}

static void addRole(Hash &hash, const Role &role) {
  hash.add({uint64_t(role.ranks_size()), uint64_t(role.timetables_size())});
  for (const RankRange &range : role.ranks())
    hash.add({range.first(), range.count(), range.stride()});
  for (const Timetable &timetable : role.timetables()) {
    hash.add(timetable.name());
    hash.add({uint64_t(timetable.period_size())});
    for (const TimetableEntry &entry : timetable.period())
      addEntry(hash, entry);
  }
}

/// Adds what the command's partners must agree on, and whatever else decides when it runs.
static void addCommand(Hash &hash, const Command &command) {
  hash.add({uint64_t(command.kind_case()), tokenOf(command), tokenSpaceOf(command)});
  if (command.has_start()) {
    const Collective &call = command.start();
    hash.add({call.group(), uint64_t(call.kind()), uint64_t(call.reduction()), uint64_t(call.type()),
              uint64_t(call.outer()), uint64_t(call.middle()), uint64_t(call.chunk()), call.split_first(), call.root(),
              call.more(), call.has_counts()});
  } else if (communicates(command)) {
    const Transfer &transfer = transferOf(command);
    hash.add({transfer.group(), uint64_t(transfer.shift()), uint64_t(transfer.type()), uint64_t(transfer.elements())});
  } else if (command.has_copy()) {
    hash.add({command.copy().channel()});
  }
}

uint64_t hashOfJudged(const Manifest &manifest) {
  Hash hash;
  addGroups(hash, manifest);
  for (const Role &role : manifest.roles())
    addRole(hash, role);
  for (const CommandList &list : manifest.lists()) {
    hash.add(list.name());
    for (const Command &command : list.commands())
      if (isStart(command) || command.has_wait())
        addCommand(hash, command);
  }
  return hash.value;
}

} // namespace dtc::abi
