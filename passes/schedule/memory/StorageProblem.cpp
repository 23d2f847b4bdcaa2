// Judges storage problems and their solutions, and counts live bytes.
#include "passes/schedule/memory/StorageProblem.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace dtc {

static std::string describe(const StorageProblem &problem, size_t index) {
  const StorageInterval &interval = problem.intervals[index];
  return "interval " + std::to_string(index) + " (" + std::to_string(interval.bytes) + " bytes from " +
         std::to_string(interval.first) + " to " + std::to_string(interval.last) + ")";
}

std::string StorageProblem::check() const {
  if (unit == 0)
    return "places cannot begin at multiples of 0";
  for (size_t i = 0; i < intervals.size(); ++i)
    if (intervals[i].first < 0 || intervals[i].last < intervals[i].first)
      return describe(*this, i) + " ends before it begins";
  return "";
}

/// Live intervals are kept by their offsets. Each one that begins is compared with its neighbours; what is no longer
/// alive there is removed.
std::string StorageProblem::verify(const StorageSolution &solution) const {
  if (solution.offsets.size() != intervals.size())
    return "a solution of another problem";
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return intervals[a].first < intervals[b].first; });
  auto endOf = [&](size_t i) { return solution.offsets[i] + intervals[i].bytes; };
  std::map<uint64_t, size_t> alive; // by offset
  for (size_t i : order) {
    if (solution.offsets[i] % unit != 0 || endOf(i) > solution.end)
      return describe(*this, i) + " lies at no multiple of the unit, or beyond the end";
    if (intervals[i].bytes == 0)
      continue;
    auto other = alive.upper_bound(solution.offsets[i]);
    if (other != alive.begin() && endOf(std::prev(other)->second) > solution.offsets[i])
      --other;
    while (other != alive.end() && other->first < endOf(i)) {
      if (intervals[other->second].last >= intervals[i].first)
        return describe(*this, i) + " lies over " + describe(*this, other->second);
      other = alive.erase(other);
    }
    alive.emplace(solution.offsets[i], i);
  }
  return "";
}

LiveBytes::LiveBytes(int positions)
    : leaves(std::bit_ceil(static_cast<size_t>(std::max(positions, 1)))), nodes(2 * leaves) {}

void LiveBytes::change(int first, int last, int64_t bytes) {
  size_t begin = leaves + static_cast<size_t>(first), end = leaves + static_cast<size_t>(last) + 1;
  auto cover = [&](size_t node) {
    nodes[node].own += bytes;
    nodes[node].most += bytes;
  };
  for (size_t left = begin, right = end; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1)
      cover(left++);
    if (right % 2 == 1)
      cover(--right);
  }
  auto update = [&](size_t leaf) {
    for (size_t node = leaf / 2; node > 0; node /= 2)
      nodes[node].most = nodes[node].own + std::max(nodes[2 * node].most, nodes[2 * node + 1].most);
  };
  update(begin);
  update(end - 1);
}

int LiveBytes::firstOfMost() const {
  size_t node = 1;
  while (node < leaves)
    node = 2 * node + (nodes[2 * node].most < nodes[2 * node + 1].most);
  return static_cast<int>(node - leaves);
}

} // namespace dtc
