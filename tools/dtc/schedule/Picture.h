// A timetable as a picture: one row per rank, time to the right.
#pragma once

#include "timing/timetables/simulate.h"

#include <string>

namespace dtc {

/// Draws to the standard output, at most `width` columns wide: in colours where there are any, otherwise in letters.
/// Entries too short for their micro-batch's number show only their kind; neighbours may hide entries shorter than a
/// column.
void drawSchedule(const timetables::Timetable &timetable, const timetables::Simulated &simulated, size_t width);

/// The same as an SVG document, whose entries show their names under the pointer.
std::string scheduleSvg(const timetables::Timetable &timetable, const timetables::Simulated &simulated);

/// Columns of the terminal, or a usual number where the standard output is not a terminal.
size_t terminalColumns();

} // namespace dtc
