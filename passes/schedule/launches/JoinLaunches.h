// Which launches of one elementwise formula can be one command: on numbers alone.
//
// An optimizer's formula is launched for every parameter. Parameters that decay are next to each other, as are those
// that do not, and what belongs to them is in the same order (StepPlanner.h): a few commands update a whole model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dtc {

/// A tensor that a launch reads or writes.
struct LaunchBuffer {
  uint64_t begin = 0, end = 0; ///< in memory
  uint64_t value = 0;          ///< equal only for one and the same value
  bool isScalar = false;       ///< a number that all elements share
  bool isDense = true;
  bool isWritten = false;
};

/// Launches with nothing else between them. Only those with the same formula can be joined; formula 0 is never joined.
struct LaunchRun {
  std::vector<unsigned> formulas; ///< of each launch
  /// A launch's operands, then its results. Called only if there is something to join.
  std::function<std::vector<LaunchBuffer>(size_t)> buffersOf;
};

/// Groups of launches, by their numbers: each runs where its first launch is, in the order of memory. Groups come in
/// the order of their first launches.
std::vector<std::vector<int>> joinLaunches(const LaunchRun &run);

} // namespace dtc
