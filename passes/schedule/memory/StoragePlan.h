// A storage problem that changes, and its solution: what placeLargestFirst would give, without placing everything
// again.
//
// Intervals are placed in an order, and each looks only at those before it. So after a change nothing before the
// changed one moves. Of those after it, only an interval moves that is alive together with something that moved, and is
// either where that is now, or above where it was. Each of these is placed again in its turn, and if it moves it is one
// of those that moved. Most changes move few: in a step with 96 layers a tenth of a percent. Where many move, all are
// placed again, which costs less than following each.
#pragma once

#include "passes/schedule/memory/StorageProblem.h"

#include <cstddef>

namespace dtc {

class StoragePlan {
public:
  explicit StoragePlan(StorageProblem problem) : current(std::move(problem)) { placeAll(); }

  const StorageProblem &problem() const { return current; }
  const StorageSolution &solution() const { return solved; }

  /// Gives an interval other bytes or another lifetime. Without bytes it does not count: that is how intervals are
  /// removed and come back.
  void change(size_t index, StorageInterval interval);
  /// Adds one, and returns its index.
  size_t add(StorageInterval interval);

private:
  struct Placed {
    uint64_t begin, end;
    int first, last;
    size_t index;
  };
  struct Move {
    Placed before, after;
    size_t holder; ///< rank of one that was found to occupy the memory that was left
  };

  void placeAll();
  void rankAll();
  Placed withoutPlace(size_t index) const;
  size_t rankFor(size_t index) const;
  bool isAffected(size_t rank);
  bool isFree(Move &move, size_t rank);
  uint64_t lowestFree(size_t rank, uint64_t room);
  void follow(size_t rank, size_t changed);

  StorageProblem current;
  StorageSolution solved;
  std::vector<Placed> ranked; ///< in the order of placing; empty until something changes
  std::vector<Move> moves;    ///< of the change that is followed
  std::vector<std::pair<uint64_t, uint64_t>> occupied;
};

} // namespace dtc
