#include "timing/certify/rank_classes.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/written.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <unordered_set>

namespace dtc::timing {

Way wayOf(const abi::Manifest &manifest, const abi::Command &command) {
  uint32_t group = abi::groupOf(command);
  if (command.has_start())
    return {group, 0};
  int64_t members = abi::membersOf(manifest.groups(static_cast<int>(group)));
  return {group, abi::shifted(0, abi::transferOf(command).shift(), members)};
}

std::set<Way> waysOf(const abi::Manifest &manifest, const abi::Role &role) {
  std::unordered_set<std::string_view> used;
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) { used.insert(entry.list()); });
  std::set<Way> ways;
  for (const abi::CommandList &list : manifest.lists())
    if (used.contains(list.name()))
      for (const abi::Command &command : list.commands())
        if (abi::communicates(command))
          ways.insert(wayOf(manifest, command));
  return ways;
}

namespace {

/// What distinguishes a rank from others: its class, and the classes that it meets.
using Signature = std::vector<uint32_t>;

class Refinement {
public:
  Refinement(const abi::Manifest &manifest, const Mesh &mesh, const std::vector<std::set<Way>> &ways);

  RankClasses run();

private:
  /// Ranks that meet in one way: the members of a group, or two that exchange messages, in both orders.
  struct Met {
    std::vector<int> ranks;   ///< that use the way
    std::vector<int> members; ///< whom they meet
  };

  void findRoles();
  void findMet(Way way, const std::vector<bool> &uses);
  bool refine();

  const abi::Manifest &manifest;
  const Mesh &mesh;
  std::vector<int> roles;                   // of the ranks
  std::vector<uint32_t> classes;            // likewise
  size_t count = 0;                         // of classes
  std::vector<std::vector<Met>> meetingsOf; // of each way
};

} // namespace

Refinement::Refinement(const abi::Manifest &manifest, const Mesh &mesh, const std::vector<std::set<Way>> &ways)
    : manifest(manifest), mesh(mesh) {
  findRoles();
  std::set<Way> all;
  for (const std::set<Way> &ofRole : ways)
    all.insert(ofRole.begin(), ofRole.end());
  for (Way way : all) {
    std::vector<bool> uses;
    for (const std::set<Way> &ofRole : ways)
      uses.push_back(ofRole.contains(way));
    findMet(way, uses);
  }
}

void Refinement::findRoles() {
  roles.assign(static_cast<size_t>(mesh.ranks()), 0);
  for (int role = 0; role < manifest.roles_size(); ++role)
    for (const abi::RankRange &range : manifest.roles(role).ranks())
      abi::forEachRank(range, [&](uint64_t rank) {
        roles.at(rank) = role;
        return true;
      });
  classes.assign(roles.begin(), roles.end());
  count = static_cast<size_t>(manifest.roles_size());
}

/// The lowest rank of a group is met first, and knows the others.
void Refinement::findMet(Way way, const std::vector<bool> &uses) {
  const abi::Group &group = manifest.groups(static_cast<int>(way.group));
  std::vector<Met> &found = meetingsOf.emplace_back();
  std::vector<bool> seen(roles.size());
  auto usesIt = [&](int rank) { return uses[static_cast<size_t>(roles[static_cast<size_t>(rank)])]; };
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (seen[static_cast<size_t>(rank)])
      continue;
    std::vector<int> all = mesh.group(rank, group.axes()).ranks, members;
    for (int each : all)
      seen[static_cast<size_t>(each)] = true;
    for (uint32_t member : group.members())
      members.push_back(all.at(member));
    for (int each : all)
      if (usesIt(each) && !members.empty() && std::ranges::find(members, each) == members.end())
        throw Error(ExitCode::BadInput,
                    fmt::format("rank {} is no member of group {}, which its lists name", each, way.group));
    if (members.empty())
      members = std::move(all);
    auto size = static_cast<int64_t>(members.size());
    if (way.shift != 0) {
      for (int64_t i = 0; i < size; ++i)
        if (usesIt(members[static_cast<size_t>(i)]))
          found.push_back(
              {{members[static_cast<size_t>(i)]}, {members[static_cast<size_t>(abi::shifted(i, way.shift, size))]}});
      continue;
    }
    Met met;
    std::ranges::copy_if(members, std::back_inserter(met.ranks), usesIt);
    met.members = std::move(members);
    if (!met.ranks.empty())
      found.push_back(std::move(met));
  }
}

/// Tells ranks apart by whom they meet; says whether there are more classes now.
bool Refinement::refine() {
  std::vector<Signature> signatures(classes.size());
  for (size_t rank = 0; rank < classes.size(); ++rank)
    signatures[rank].push_back(classes[rank]);
  for (const std::vector<Met> &meetings : meetingsOf) {
    std::map<Signature, uint32_t> sets;
    for (const Met &met : meetings) {
      Signature set;
      for (int member : met.members)
        if (uint32_t one = classes[static_cast<size_t>(member)]; set.empty() || set.back() != one)
          set.push_back(one);
      std::ranges::sort(set);
      set.erase(std::ranges::unique(set).begin(), set.end());
      uint32_t number = sets.emplace(std::move(set), sets.size()).first->second;
      for (int rank : met.ranks)
        signatures[static_cast<size_t>(rank)].push_back(number);
    }
  }
  std::map<Signature, uint32_t> numbers; // in the order of the lowest ranks
  for (size_t rank = 0; rank < classes.size(); ++rank)
    classes[rank] = numbers.emplace(std::move(signatures[rank]), numbers.size()).first->second;
  bool grew = numbers.size() > count;
  count = numbers.size();
  return grew;
}

RankClasses Refinement::run() {
  while (refine())
    ;
  RankClasses result;
  for (size_t rank = 0; rank < classes.size(); ++rank)
    if (classes[rank] == result.classes.size())
      result.classes.push_back({roles[rank], static_cast<int>(rank)});
  result.ofRanks = std::move(classes);
  return result;
}

RankClasses classify(const abi::Manifest &manifest, const Mesh &mesh, const std::vector<std::set<Way>> &ways) {
  return Refinement(manifest, mesh, ways).run();
}

} // namespace dtc::timing
