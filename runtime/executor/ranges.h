// Sets of addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace dtc {

/// Disjoint, non-adjacent ranges of addresses.
class Ranges {
public:
  void add(uint64_t begin, uint64_t end) {
    auto after = ranges.upper_bound(end);
    while (after != ranges.begin() && std::prev(after)->second >= begin) {
      auto touched = std::prev(after);
      begin = std::min(begin, touched->first);
      end = std::max(end, touched->second);
      ranges.erase(touched);
    }
    if (begin < end)
      ranges.emplace(begin, end);
  }

  /// Calls visit(begin, end) for the parts of a range that no range here covers.
  template <typename Visit> void forEachGap(uint64_t begin, uint64_t end, Visit visit) const {
    auto next = ranges.upper_bound(begin);
    if (next != ranges.begin() && std::prev(next)->second > begin)
      begin = std::prev(next)->second;
    for (; begin < end; ++next) {
      uint64_t until = next == ranges.end() ? end : std::min(end, next->first);
      if (begin < until)
        visit(begin, until);
      if (next == ranges.end())
        return;
      begin = std::max(begin, next->second);
    }
  }

  bool overlaps(uint64_t begin, uint64_t end) const {
    auto next = ranges.lower_bound(end);
    return next != ranges.begin() && std::prev(next)->second > begin;
  }

  auto begin() const { return ranges.begin(); }
  auto end() const { return ranges.end(); }

private:
  std::map<uint64_t, uint64_t> ranges; // begin and end
};

} // namespace dtc
