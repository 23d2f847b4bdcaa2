// Places intervals largest first, each at the lowest offset that is free for as long as it lives.
//
// What is occupied while an interval lives comes from a segment tree over time. Each node stands for a span of time and
// keeps two sets of ranges of memory: `within`, occupied at some moment of the span by intervals that live no longer
// than the parent node's span, and `across`, occupied throughout the span by such intervals. What an interval must keep
// clear of is then in O(log n) sets: `within` of the largest spans that make up its life, and `across` of the spans
// around those.
//
// Sets hold whole runs, not intervals: adjacent ones are one range. Because the largest are placed first and as low as
// possible, memory that is occupied in a span is nearly a single run, however many intervals it has: a training step
// has thousands of equal sizes, stacked up in the forward pass and taken down in the backward pass. So searching a set
// takes few steps. Runs that stay apart make it slower, not wrong.
#include "passes/schedule/memory/StorageProblem.h"

#include <algorithm>
#include <bit>

namespace dtc {

namespace {

struct Range {
  uint64_t begin, end;
};

/// Ranges of memory in ascending order, which neither overlap nor touch.
class RangeSet {
public:
  bool empty() const { return ranges.empty(); }

  /// Adds a range; returns false if all of it was there.
  bool add(Range range) {
    // The first that overlaps or touches it, and the first after those.
    auto first = firstEndingFrom(range.begin);
    if (first != ranges.end() && first->begin <= range.begin && first->end >= range.end)
      return false;
    auto behind = first;
    for (; behind != ranges.end() && behind->begin <= range.end; ++behind)
      range = {std::min(range.begin, behind->begin), std::max(range.end, behind->end)};
    if (first == behind) {
      ranges.insert(first, range);
    } else {
      *first = range;
      ranges.erase(first + 1, behind);
    }
    return true;
  }

  /// Raises `offset` to the next at which `bytes` are free here; returns whether it changed.
  bool raise(uint64_t &offset, uint64_t bytes) const {
    uint64_t before = offset;
    for (auto range = firstEndingFrom(offset + 1); range != ranges.end() && range->begin < offset + bytes; ++range)
      offset = range->end;
    return offset != before;
  }

private:
  std::vector<Range>::const_iterator firstEndingFrom(uint64_t end) const {
    return std::partition_point(ranges.begin(), ranges.end(), [&](const Range &range) { return range.end < end; });
  }
  std::vector<Range>::iterator firstEndingFrom(uint64_t end) {
    return std::partition_point(ranges.begin(), ranges.end(), [&](const Range &range) { return range.end < end; });
  }

  std::vector<Range> ranges;
};

/// What is occupied, and when.
class Occupation {
public:
  explicit Occupation(size_t moments) : leaves(std::bit_ceil(std::max(moments, size_t(1)))), nodes(2 * leaves) {}

  void occupy(size_t first, size_t last, Range range) {
    auto cover = [&](size_t node) {
      nodes[node].across.add(range);
      // What is within a span is within those around it: if one has it, so do all around it.
      for (; node > 0 && nodes[node].within.add(range); node /= 2) {
      }
    };
    for (size_t left = leaves + first, right = leaves + last + 1; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1)
        cover(left++);
      if (right % 2 == 1)
        cover(--right);
    }
  }

  /// The lowest offset at which `bytes` are free from `first` to `last`.
  uint64_t findFree(size_t first, size_t last, uint64_t bytes) {
    met.clear();
    meet(1, 0, leaves - 1, first, last);
    uint64_t offset = 0;
    // The sets take turns, until none of them raises it any more.
    for (size_t set = 0, calm = 0; calm < met.size(); set = set + 1 == met.size() ? 0 : set + 1)
      calm = met[set]->raise(offset, bytes) ? 1 : calm + 1;
    return offset;
  }

private:
  struct Node {
    RangeSet within, across;
  };

  /// Collects the sets of what is occupied at some moment from `first` to `last`. `node` spans `begin` to `end`. Spans
  /// come from the longest to the shortest: what lives long is large and at low offsets.
  void meet(size_t node, size_t begin, size_t end, size_t first, size_t last) {
    if (nodes[node].within.empty())
      return;
    if (first <= begin && end <= last) {
      met.push_back(&nodes[node].within);
      return;
    }
    if (!nodes[node].across.empty())
      met.push_back(&nodes[node].across);
    size_t middle = begin + (end - begin) / 2;
    if (first <= middle)
      meet(2 * node, begin, middle, first, last);
    if (last > middle)
      meet(2 * node + 1, middle + 1, end, first, last);
  }

  size_t leaves;
  std::vector<Node> nodes; ///< a heap: the children of i are 2 i and 2 i + 1
  std::vector<const RangeSet *> met;
};

/// Only moments at which something begins matter: two that are alive together are so when the later one begins.
class Moments {
public:
  Moments(const std::vector<StorageInterval> &intervals, const std::vector<size_t> &chosen) {
    positions.reserve(chosen.size());
    for (size_t index : chosen)
      positions.push_back(intervals[index].first);
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  }

  size_t count() const { return positions.size(); }
  /// The last moment that is not after `position`.
  size_t at(int position) const {
    return static_cast<size_t>(std::upper_bound(positions.begin(), positions.end(), position) - positions.begin()) - 1;
  }

private:
  std::vector<int> positions;
};

} // namespace

StorageSolution placeLargestFirst(const StorageProblem &problem) {
  const std::vector<StorageInterval> &intervals = problem.intervals;
  std::vector<size_t> order; // those without bytes are at 0
  for (size_t index = 0; index < intervals.size(); ++index)
    if (intervals[index].bytes > 0)
      order.push_back(index);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.isPlacedBefore(a, b);
  });
  Moments moments(intervals, order);
  Occupation occupation(moments.count());
  StorageSolution solution;
  solution.offsets.resize(intervals.size());
  for (size_t index : order) {
    uint64_t room = problem.roomOf(intervals[index]);
    size_t first = moments.at(intervals[index].first), last = moments.at(intervals[index].last);
    uint64_t offset = occupation.findFree(first, last, room);
    occupation.occupy(first, last, {offset, offset + room});
    solution.offsets[index] = offset;
    solution.end = std::max(solution.end, offset + room);
  }
  return solution;
}

} // namespace dtc
