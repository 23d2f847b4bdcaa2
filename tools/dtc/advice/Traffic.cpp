#include "tools/dtc/advice/Traffic.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"

#include <algorithm>
#include <map>

namespace dtc {

static double payloadOf(const abi::Manifest &manifest, const abi::CommandList &list, int number) {
  const abi::Command &command = list.commands(number);
  if (!command.has_start())
    return static_cast<double>(abi::bytesEach(command));
  int64_t members = abi::membersOf(manifest.groups(static_cast<int>(abi::groupOf(command))));
  double payload = 0;
  for (int part = number; part < list.commands_size(); ++part) {
    payload += abi::payloadBytes(list.commands(part).start(), members);
    if (!list.commands(part).start().more())
      break;
  }
  return payload;
}

static std::map<std::string_view, int64_t> runsInStep(const abi::Role &role) {
  std::map<std::string_view, int64_t> runs;
  abi::forEachEntry(abi::timetableOf(role, abi::stepTimetable),
                    [&](const abi::TimetableEntry &entry) { ++runs[entry.list()]; });
  return runs;
}

static void addMoves(const abi::Manifest &manifest, RoleTraffic &traffic) {
  std::map<std::string_view, int64_t> runs = runsInStep(*traffic.role);
  for (const abi::CommandList &list : manifest.lists()) {
    auto times = runs.find(list.name());
    if (times == runs.end())
      continue;
    for (int number = 0; number < list.commands_size(); ++number) {
      const abi::Command &command = list.commands(number);
      if ((command.has_start() || command.has_send()) && !abi::isPart(list, number))
        traffic.moves.push_back({&list, static_cast<uint32_t>(number), abi::groupOf(command),
                                 payloadOf(manifest, list, number), times->second});
    }
  }
}

std::vector<RoleTraffic> trafficOf(const abi::Manifest &manifest) {
  std::vector<RoleTraffic> all;
  Mesh mesh(manifest.mesh());
  for (const abi::Role &role : manifest.roles()) {
    RoleTraffic &traffic = all.emplace_back();
    traffic.role = &role;
    traffic.first = abi::firstRankOf(role);
    traffic.ranks = role.ranks().empty() ? mesh.ranks() : 0;
    for (const abi::RankRange &range : role.ranks())
      traffic.ranks += range.count();
    for (const abi::Group &group : manifest.groups()) {
      std::vector<int> ranks = mesh.group(static_cast<int>(traffic.first), group).ranks;
      traffic.members.emplace_back(ranks.begin(), ranks.end());
    }
    addMoves(manifest, traffic);
  }
  return all;
}

bool isOver(const abi::Group &group, std::string_view axis) {
  return std::ranges::any_of(group.axes(), [&](const abi::AxisRef &ref) { return ref.axis() == axis; });
}

bool isOverAlone(const abi::Group &group, std::string_view axis) {
  return isOver(group, axis) &&
         std::ranges::all_of(group.axes(), [&](const abi::AxisRef &ref) { return ref.axis() == axis; });
}

} // namespace dtc
