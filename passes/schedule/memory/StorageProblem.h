// Which temporaries share memory: dynamic storage allocation, on numbers alone.
//
// An interval is a number of bytes that are needed from one position of a list to another, both included. A solution
// gives each an offset, such that no two that are needed at one position overlap. Nothing here uses MLIR, so a search
// for a better order of a list can ask as often as it likes. Algorithms are separate from the problem, which judges
// their solutions (llvm/circt include/circt/Scheduling/Problems.h). What is in another part of the arena is another
// problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

struct StorageInterval {
  uint64_t bytes = 0;
  int first = 0, last = 0; ///< positions in the list, from 0

  bool operator==(const StorageInterval &) const = default;
};

struct StorageSolution {
  std::vector<uint64_t> offsets; ///< of each interval
  uint64_t end = 0;              ///< of the highest
};

struct StorageProblem {
  std::vector<StorageInterval> intervals;
  uint64_t unit = 1; ///< places begin at multiples of this

  /// Bytes from an interval's place to where the next may begin.
  uint64_t roomOf(const StorageInterval &interval) const { return (interval.bytes + unit - 1) / unit * unit; }

  /// The order in which intervals are placed, which depends on the list and not on their numbers: the largest first,
  /// and among equal ones the one that begins first.
  bool isPlacedBefore(size_t a, size_t b) const {
    const StorageInterval &one = intervals[a], &other = intervals[b];
    if (one.bytes != other.bytes)
      return one.bytes > other.bytes;
    return one.first != other.first ? one.first < other.first : a < b;
  }

  /// Why this is not a valid problem, or an empty string.
  std::string check() const;
  /// Why `solution` does not solve this problem, or an empty string.
  std::string verify(const StorageSolution &solution) const;
};

/// Bytes that are alive at each position, kept while intervals come and go, each in the logarithm of the positions.
/// Their maximum is a lower bound on every solution's end.
class LiveBytes {
public:
  /// For positions from 0 to before `positions`.
  explicit LiveBytes(int positions);

  void add(int first, int last, uint64_t bytes) { change(first, last, static_cast<int64_t>(bytes)); }
  void remove(int first, int last, uint64_t bytes) { change(first, last, -static_cast<int64_t>(bytes)); }
  uint64_t most() const { return static_cast<uint64_t>(nodes[1].most); }
  /// The first position at which the most bytes are alive.
  int firstOfMost() const;

private:
  struct Node {
    int64_t most = 0; ///< of the positions below, of what covers at most this node
    int64_t own = 0;  ///< covers all positions below, and not all of the parent's
  };
  void change(int first, int last, int64_t bytes);

  size_t leaves;
  std::vector<Node> nodes; ///< a heap: the children of i are 2 i and 2 i + 1
};

/// Places intervals in the order of isPlacedBefore, each at the lowest offset where it overlaps no interval that is
/// alive with it. Takes about the same time for each interval, however many there are (StoragePlacer.cpp says why).
StorageSolution placeLargestFirst(const StorageProblem &problem);

} // namespace dtc
