// Colours ranks until no colour splits.
#include "timing/events/classes.h"

#include "runtime/abi/mesh.h"
#include "runtime/abi/written.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace dtc::timing {

namespace {

constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccd ^ hash >> 33;
}

/// All groups of ranks that one group of the manifest stands for.
struct Instances {
  std::vector<int> lowest;                               ///< by rank: names its instance
  std::unordered_map<int, std::vector<int64_t>> members; ///< by that, in the group's order; none where there are none
  std::unordered_map<int, Span> spans;
};

Instances instancesOf(const Mesh &mesh, const abi::Group &group, const Layout &layout) {
  Instances all;
  all.lowest = mesh.lowestOfEach(group.axes());
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (all.lowest[rank] != rank)
      continue;
    Group whole = mesh.group(rank, group.axes());
    std::vector<int64_t> &members = all.members[rank];
    if (group.members().empty())
      members.assign(whole.ranks.begin(), whole.ranks.end());
    else
      for (uint32_t member : group.members())
        members.push_back(whole.ranks[member]);
    all.spans[rank] = layout.spanOf(members);
  }
  return all;
}

/// Numbers the hashes, in the order in which ranks have them.
int number(const std::vector<uint64_t> &hashes, std::vector<int> &colours) {
  std::unordered_map<uint64_t, int> known;
  for (size_t rank = 0; rank < hashes.size(); ++rank)
    colours[rank] = known.try_emplace(hashes[rank], static_cast<int>(known.size())).first->second;
  return static_cast<int>(known.size());
}

/// Shifts that sends and receives over a group name.
std::vector<std::set<int32_t>> shiftsOf(const Step &step) {
  std::vector<std::set<int32_t>> shifts(step.groups.size());
  for (const StepList &list : step.lists)
    for (const Action &action : list.actions)
      if (action.kind == Action::Kind::Send || action.kind == Action::Kind::Receive)
        shifts[step.moves[action.index].group].insert(action.shift);
  return shifts;
}

/// Mixes into each member's hash what its instance of a group looks like.
void mixGroup(const Instances &instances, const std::set<int32_t> &shifts, const Layout &layout,
              const std::vector<int> &colours, std::vector<uint64_t> &hashes) {
  for (const auto &[lowest, members] : instances.members) {
    std::vector<int> seen;
    for (int64_t member : members)
      seen.push_back(colours[member]);
    std::vector<int> sorted = seen;
    std::sort(sorted.begin(), sorted.end());
    uint64_t own = 1;
    for (int64_t units : instances.spans.at(lowest).units)
      own = mix(own, static_cast<uint64_t>(units));
    for (int colour : sorted)
      own = mix(own, static_cast<uint64_t>(colour));
    auto count = static_cast<int64_t>(members.size());
    for (int64_t self = 0; self < count; ++self) {
      uint64_t &hash = hashes[members[self]];
      hash = mix(hash, own);
      for (int32_t shift : shifts) {
        int64_t other = ((self + shift) % count + count) % count;
        hash = mix(mix(hash, static_cast<uint64_t>(seen[other])),
                   static_cast<uint64_t>(layout.levelBetween(members[self], members[other])));
      }
    }
  }
}

GroupView viewOf(int rank, const Instances &instances, const std::vector<int> &colours) {
  int lowest = instances.lowest[rank];
  const std::vector<int64_t> &members = instances.members.at(lowest);
  if (std::find(members.begin(), members.end(), rank) == members.end())
    return {};
  std::set<int> classes;
  for (int64_t member : members)
    classes.insert(colours[member]);
  return {instances.spans.at(lowest), {classes.begin(), classes.end()}};
}

} // namespace

/// What distinguishes ranks before looking at whom they meet.
static std::vector<uint64_t> ownHashes(const Step &step, const Layout &layout,
                                       const std::map<int64_t, double> &slowness) {
  std::vector<uint64_t> hashes;
  for (size_t rank = 0; rank < step.roleOf.size(); ++rank) {
    auto own = static_cast<int64_t>(rank);
    auto slow = slowness.find(own);
    uint64_t hash = mix(1, static_cast<uint64_t>(step.roleOf[rank]));
    hash = mix(hash, static_cast<uint64_t>(layout.deviceIndexOf(own)));
    hash = mix(hash, static_cast<uint64_t>(layout.ranksOnNodeOf(own)));
    hashes.push_back(mix(hash, std::hash<double>()(slow == slowness.end() ? 1 : slow->second)));
  }
  return hashes;
}

EqualRanks::EqualRanks(const Step &step, const Layout &layout, const std::map<int64_t, double> &slowness)
    : layout(layout), mesh(step.mesh), groups(step.groups) {
  std::vector<Instances> instances;
  for (const abi::Group &group : groups)
    instances.push_back(instancesOf(mesh, group, layout));
  std::vector<std::set<int32_t>> shifts = shiftsOf(step);
  std::vector<uint64_t> hashes = ownHashes(step, layout, slowness);
  colours.resize(hashes.size());
  int count = number(hashes, colours);
  for (int before = 0; before != count;) {
    before = count;
    for (size_t rank = 0; rank < hashes.size(); ++rank)
      hashes[rank] = static_cast<uint64_t>(colours[rank]);
    for (size_t group = 0; group < groups.size(); ++group)
      mixGroup(instances[group], shifts[group], layout, colours, hashes);
    count = number(hashes, colours);
  }
  sizes.resize(count);
  representatives.assign(count, -1);
  for (size_t rank = 0; rank < colours.size(); ++rank)
    if (++sizes[colours[rank]]; representatives[colours[rank]] < 0)
      representatives[colours[rank]] = static_cast<int>(rank);
  for (int representative : representatives) {
    auto own = slowness.find(representative);
    slow.push_back(own == slowness.end() ? 1 : own->second);
    std::vector<GroupView> &ofClass = views.emplace_back();
    for (const Instances &ofGroup : instances)
      ofClass.push_back(viewOf(representative, ofGroup, colours));
  }
}

Peer EqualRanks::peerOf(int number, uint32_t group, int64_t shift) const {
  int own = representatives[number], other = mesh.neighbour(own, groups[group], shift);
  return {colours[other], layout.levelBetween(own, other)};
}

} // namespace dtc::timing
