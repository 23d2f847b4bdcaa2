// Says whether a timetable works, and if not, why: which entry of which rank is wrong.
//
// A timetable is valid when
//   - each stage belongs to one rank, and has each micro-batch's forward pass and backward pass once. The backward pass
//     may be split: B = I + W;
//   - all ranks come to the end. An entry waits for the forward pass of the stage before, or for its own forward pass
//     and the input gradient of the stage behind, or, for weight gradients, for its own input gradient;
//   - no rank holds more stashes at a time than it may. A stash is there from the beginning of the forward pass to the
//     end of the weight gradients.
#pragma once

#include "timing/timetables/timetable.h"

namespace dtc::timetables {

/// What is wrong, or empty. `mostStashes`: of stages and micro-batches together on one rank; 0: no limit. A stash that
/// two stages of a rank leave counts twice, so that a rank with v stages holds v times as many for as much memory.
std::string findFault(const Timetable &timetable, int64_t mostStashes = 0);

/// Whether in each stage the weight gradients come in ascending order of micro-batches, as they do in all timetables
/// that are generated: then the gradients add in one order, and these timetables give each other's bits. If not, this
/// names the first two entries that do not: results then agree within bounds only. Empty: they do.
std::string findWeightsOutOfOrder(const Timetable &timetable);

/// Of each rank: how many stashes it holds at most, of all its stages together.
std::vector<int64_t> peakStashes(const Timetable &timetable);

/// What a rank's list does while the rank holds the most stashes.
struct StashPeak {
  int64_t stashes = 0;
  std::vector<Entry> entries; ///< in their order; of two that are co-scheduled the first
};
/// `held`: the stashes that are there before the list.
StashPeak stashPeak(const std::vector<Entry> &list, int64_t held = 0);

} // namespace dtc::timetables
