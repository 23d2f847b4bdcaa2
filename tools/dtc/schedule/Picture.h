// A timetable as a picture: one row per rank, time to the right.
#pragma once

#include "timing/timetables/simulate.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// Draws to the standard output, at most `width` columns wide: in colours where there are any, otherwise in letters.
/// Entries too short for their micro-batch's number show only their kind; neighbours may hide entries shorter than a
/// column.
void drawSchedule(const timetables::Timetable &timetable, const timetables::Simulated &simulated, size_t width);

/// How an SVG document differs from the usual one.
struct SvgOptions {
  double seconds = 0;                    ///< that fill a row, so that pictures have one scale; 0: the step's length
  double factor = 1;                     ///< of the times that entries show
  std::string_view unit = {};            ///< behind these: " ms"
  std::vector<int64_t> rankNumbers = {}; ///< of the rows; empty: 0, 1, ...
};

/// The same as an SVG document, whose entries show their names under the pointer.
std::string scheduleSvg(const timetables::Timetable &timetable, const timetables::Simulated &simulated,
                        const SvgOptions &options = {});

/// Columns of the terminal, or a usual number where the standard output is not a terminal.
size_t terminalColumns();

} // namespace dtc
