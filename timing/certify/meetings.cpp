#include "timing/certify/meetings.h"

#include "runtime/abi/commands.h"

#include <algorithm>

namespace dtc::timing {

Meetings::Meetings(const abi::Manifest &manifest, const Mesh &mesh, const RankClasses &ranks,
                   const std::vector<std::set<Way>> &ways)
    : manifest(manifest), mesh(mesh), ranks(ranks), seats(ranks.classes.size()) {
  for (uint32_t one = 0; one < ranks.classes.size(); ++one)
    for (Way way : ways[static_cast<size_t>(ranks.classes[one].role)])
      seats[one].emplace(way, Ends{makeSeat(one, way, false), makeSeat(one, way, true)});
}

uint32_t Meetings::add(Way way, std::vector<uint32_t> classes) {
  auto [known, isNew] = numbers.try_emplace({way, classes}, meetings.size());
  if (isNew)
    meetings.push_back({way, manifest.groups(static_cast<int>(way.group)).channel(), std::move(classes)});
  return known->second;
}

Meetings::Seat Meetings::makeSeat(uint32_t rankClass, Way way, bool receives) {
  int rank = ranks.classes[rankClass].first;
  const abi::Group &group = manifest.groups(static_cast<int>(way.group));
  if (way.shift != 0) {
    uint32_t peer = ranks.ofRanks[static_cast<size_t>(mesh.neighbour(rank, group, way.shift))];
    auto size = static_cast<int64_t>(mesh.group(rank, group).ranks.size());
    // For a receive the sender is the other rank: seen from there, this one is as far back.
    return receives ? Seat{add({way.group, abi::shifted(0, -way.shift, size)}, {peer, rankClass}), 1}
                    : Seat{add(way, {rankClass, peer}), 0};
  }
  std::vector<uint32_t> classes;
  for (int member : mesh.group(rank, group).ranks)
    classes.push_back(ranks.ofRanks[static_cast<size_t>(member)]);
  std::ranges::sort(classes);
  classes.erase(std::ranges::unique(classes).begin(), classes.end());
  auto own = std::ranges::find(classes, rankClass) - classes.begin();
  return {add(way, std::move(classes)), static_cast<uint32_t>(own)};
}

Meetings::Seat Meetings::seatOf(uint32_t rankClass, const abi::Command &command) const {
  const Ends &ends = seats[rankClass].at(wayOf(manifest, command));
  return command.has_recv() ? ends.receives : ends.sends;
}

int Meetings::rankOf(Seat own, int rank, uint32_t member) const {
  const Meeting &meeting = meetings[own.meeting];
  const abi::Group &group = manifest.groups(static_cast<int>(meeting.way.group));
  if (member == own.member)
    return rank;
  if (!meeting.isCollective())
    return mesh.neighbour(rank, group, own.member == 0 ? meeting.way.shift : -meeting.way.shift);
  std::vector<int> members = membersOf(own.meeting, rank);
  return *std::ranges::find_if(
      members, [&](int each) { return ranks.ofRanks[static_cast<size_t>(each)] == meeting.classes[member]; });
}

} // namespace dtc::timing
