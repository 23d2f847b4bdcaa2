// The timetable "auto": the best that is found for given costs and memory.
//
// Of the named timetables (named.h) the fastest that fits; then what list scheduling makes under several policies and
// limits (greedy.h); the best of all is improved by moving single entries, as long as it stays valid and no step gets
// longer. So it is never slower than a named timetable that fits, and never over the limit. The order of everything
// that is tried is fixed: equal input gives the same timetable.
#pragma once

#include "timing/timetables/simulate.h"

#include <optional>

namespace dtc::timetables {

struct SearchRequest {
  int32_t ranks = 1, microBatches = 1;
  Costs costs;                       ///< of all stages, whose number is a multiple of the ranks
  std::optional<double> memoryLimit; ///< for the stashes of each rank, in the unit of StageCosts::stash
  int64_t effort = 2'000'000;        ///< entries that may be looked at in all, more or less
};

struct SearchResult {
  Timetable timetable;     ///< its name is "auto"
  double seconds = 0;      ///< of a step of it
  std::string bestNamed;   ///< the fastest named timetable that fits; empty: none does
  double namedSeconds = 0; ///< of a step of that
};

/// Throws Error (BadInput) where no timetable can keep the limit, with the least that is needed.
SearchResult searchTimetable(const SearchRequest &request);

} // namespace dtc::timetables
