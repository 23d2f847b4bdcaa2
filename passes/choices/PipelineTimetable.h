// The timetable of a pipeline, as a choice says it: a name (timing/timetables/named.h), or the text of a file in
// PyTorch's CSV (timing/timetables/csv.h).
#pragma once

#include "timing/timetables/timetable.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

/// Whether a choice is the text of a file.
inline bool isCsv(std::string_view chosen) { return chosen.find_first_of(",\n") != std::string_view::npos; }
/// For people: the name, or that it is a file's.
inline std::string timetableTitle(std::string_view chosen) { return std::string(isCsv(chosen) ? "a CSV file" : chosen); }

/// That a choice is neither a known name nor the text of a file, and which names there are; empty: it is one of them.
std::string findUnknownTimetable(std::string_view chosen);

/// Whether its steps overlap, so that it is no timetable of one step (timing/timetables/pipedream.h).
bool overlapsSteps(std::string_view chosen);

struct PipelineShape {
  int64_t ranks = 1;
  int64_t stages = 0; ///< 0: as many as the timetable takes at least
  int64_t microBatches = 1;
};

/// Why there is none of that shape whose steps overlap, and what to change; empty: there is.
std::string findOverlapMisfit(std::string_view chosen, const PipelineShape &shape);

/// The timetable of a step, which is valid. Throws Error (BadInput) that says why there is none of that shape.
timetables::Timetable timetableFor(std::string_view chosen, const PipelineShape &shape);

/// The first two entries of a stage that add gradients of weights, or losses, not in ascending order of micro-batches;
/// empty: all do, and the timetable gives the bits of the named ones.
std::string findSumsOutOfOrder(const timetables::Timetable &timetable);

} // namespace dtc
