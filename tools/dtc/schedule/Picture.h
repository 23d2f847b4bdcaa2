// A timetable as a picture: one row a rank, time to the right.
#pragma once

#include "timing/timetables/simulate.h"

#include <string>

namespace dtc {

/// Draws to the standard output, at most `width` columns wide: in colours where there are any, and else in letters.
/// What is too short for its micro-batch's number shows its kind alone; what is shorter than a column may be hidden by
/// its neighbours.
void drawSchedule(const timetables::Timetable &timetable, const timetables::Simulated &simulated, size_t width);

/// The same as an SVG document, whose entries name themselves under the pointer.
std::string scheduleSvg(const timetables::Timetable &timetable, const timetables::Simulated &simulated);

/// Columns of the terminal, or a usual number where the standard output is none.
size_t terminalColumns();

} // namespace dtc
