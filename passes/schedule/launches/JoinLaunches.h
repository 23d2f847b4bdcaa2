// Which launches of one elementwise formula one command can do: on numbers alone.
//
// An optimizer's formula is launched for every parameter. Parameters that decay lie side by side, as do those that do
// not, and what belongs to them in the same order (StepPlanner.h): a few commands update a whole model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dtc {

/// A tensor that a launch reads or writes.
struct LaunchBuffer {
  uint64_t begin = 0, end = 0; ///< in memory
  uint64_t value = 0;          ///< equal for one and the same value only
  bool isScalar = false;       ///< a number that all elements share
  bool isDense = true;
  bool isWritten = false;
};

/// Launches with nothing else between, of which only those of one formula can be joined: 0 is that of none.
struct LaunchRun {
  std::vector<unsigned> formulas; ///< of each launch
  /// Its operands, then its results. Asked only where there is something to join.
  std::function<std::vector<LaunchBuffer>(size_t)> buffersOf;
};

/// Groups of launches, by their numbers: each is done where its first stands, in the order of memory. Groups come in
/// the order of their first launches.
std::vector<std::vector<int>> joinLaunches(const LaunchRun &run);

} // namespace dtc
