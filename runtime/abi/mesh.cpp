#include "runtime/abi/mesh.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/written.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

namespace dtc {

static constexpr int64_t MaximumRanks = int64_t(1) << 20;

Mesh::Mesh(const abi::Mesh &mesh) : axes(mesh.axes().begin(), mesh.axes().end()) {
  std::set<std::string> names;
  int64_t product = 1;
  for (const abi::Axis &axis : axes) {
    if (axis.size() < 1 || axis.size() > MaximumRanks)
      throw Error(ExitCode::BadInput, "mesh axis '" + axis.name() + "' has size " + std::to_string(axis.size()) +
                                          "; sizes are from 1 to " + std::to_string(MaximumRanks));
    if (!names.insert(axis.name()).second)
      throw Error(ExitCode::BadInput, "mesh axis '" + axis.name() + "' is named twice");
    product *= axis.size();
    if (product > MaximumRanks)
      throw Error(ExitCode::BadInput, "the mesh has more than " + std::to_string(MaximumRanks) + " ranks");
  }
  totalRanks = static_cast<int>(product);
}

std::vector<Mesh::Digit> Mesh::digits(const AxisRefs &refs) const {
  std::vector<Digit> result;
  for (const abi::AxisRef &ref : refs) {
    int64_t stride = 1; // of the whole axis: the product of the sizes of the axes after it
    auto axis = axes.rbegin();
    for (; axis != axes.rend() && axis->name() != ref.axis(); ++axis)
      stride *= axis->size();
    if (axis == axes.rend())
      throw Error(ExitCode::BadInput, "the mesh has no axis '" + ref.axis() + "'");
    if (ref.pre() < 1 || ref.size() < 1 || ref.pre() > axis->size() || ref.size() > axis->size() ||
        axis->size() % (ref.pre() * ref.size()) != 0)
      throw Error(ExitCode::BadInput, "axis '" + ref.axis() + "' of size " + std::to_string(axis->size()) +
                                          " has no part of size " + std::to_string(ref.size()) + " after " +
                                          std::to_string(ref.pre()));
    int64_t post = axis->size() / (ref.pre() * ref.size());
    result.push_back({stride * post, ref.size()});
  }
  // Digits are parts of one number: they do not overlap.
  std::vector<Digit> ascending = result;
  std::sort(ascending.begin(), ascending.end(), [](Digit a, Digit b) { return a.stride < b.stride; });
  int64_t end = 1;
  for (const Digit &digit : ascending) {
    if (digit.size > 1 && digit.stride < end)
      throw Error(ExitCode::BadInput, "a list of mesh axes names a part of '" + refs[0].axis() + "' twice");
    end = std::max(end, digit.stride * digit.size);
  }
  return result;
}

int64_t Mesh::indexOf(int rank, const AxisRefs &refs) const {
  int64_t index = 0;
  for (const Digit &digit : digits(refs))
    index = index * digit.size + rank / digit.stride % digit.size;
  return index;
}

std::vector<int> Mesh::lowestOfEach(const AxisRefs &refs) const {
  std::vector<int> lowest(totalRanks);
  std::iota(lowest.begin(), lowest.end(), 0);
  for (const Digit &digit : digits(refs))
    for (int rank = 0; rank < totalRanks; ++rank)
      lowest[rank] -= static_cast<int>(rank / digit.stride % digit.size * digit.stride);
  return lowest;
}

Group Mesh::group(int rank, const AxisRefs &refs) const {
  Group group;
  group.ranks = {rank};
  for (const Digit &digit : digits(refs)) {
    // Every member found so far, with this digit set to each of its values.
    std::vector<int> wider;
    for (int member : group.ranks) {
      int64_t zeroed = member - member / digit.stride % digit.size * digit.stride;
      for (int64_t value = 0; value < digit.size; ++value)
        wider.push_back(static_cast<int>(zeroed + value * digit.stride));
    }
    group.ranks = std::move(wider);
  }
  group.self = static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
  return group;
}

bool Mesh::isMember(int rank, const abi::Group &group) const {
  return group.members().empty() ||
         std::ranges::find(group.members(), static_cast<uint32_t>(indexOf(rank, group.axes()))) !=
             group.members().end();
}

Group Mesh::group(int rank, const abi::Group &message) const {
  Group group = this->group(rank, message.axes());
  group.channel = message.channel();
  if (message.members().empty())
    return group;
  Group some{{}, 0, group.channel};
  if (!isMember(rank, message))
    return some;
  for (uint32_t member : message.members()) {
    if (static_cast<int>(member) == group.self)
      some.self = some.size();
    some.ranks.push_back(group.ranks[member]);
  }
  return some;
}

int Mesh::neighbour(int rank, const abi::Group &group, int64_t shift) const {
  std::vector<Digit> all = digits(group.axes());
  int64_t members = abi::membersOf(group), index = indexOf(rank, group.axes()), result = rank;
  if (group.members().empty()) {
    index = abi::shifted(index, shift, members);
  } else {
    auto self = std::ranges::find(group.members(), static_cast<uint32_t>(index)) - group.members().begin();
    index = group.members(static_cast<int>(abi::shifted(self, shift, members)));
  }
  for (auto digit = all.rbegin(); digit != all.rend(); ++digit) { // the last one varies fastest
    result += (index % digit->size - rank / digit->stride % digit->size) * digit->stride;
    index /= digit->size;
  }
  return static_cast<int>(result);
}

std::vector<Group> groupsOf(const abi::Manifest &manifest, int rank) {
  Mesh mesh(manifest.mesh());
  std::vector<Group> groups;
  for (const abi::Group &group : manifest.groups())
    groups.push_back(mesh.group(rank, group));
  return groups;
}

} // namespace dtc
