// How the named timetables are made; named.h says what each is, and lists them. Each function appends to the empty
// lists of all ranks.
#pragma once

#include "timing/timetables/named.h"

namespace dtc::timetables {

void fillNaive(Timetable &timetable, const Shape &shape);
void fillGpipe(Timetable &timetable, const Shape &shape);
void fillOneForwardOneBackward(Timetable &timetable, const Shape &shape);
void fillInterleaved(Timetable &timetable, const Shape &shape);
void fillZeroBubbleH1(Timetable &timetable, const Shape &shape);
void fillZeroBubbleH2(Timetable &timetable, const Shape &shape);
void fillZeroBubbleV(Timetable &timetable, const Shape &shape);
void fillVHalf(Timetable &timetable, const Shape &shape);
void fillVMin(Timetable &timetable, const Shape &shape);
void fillDualPipeV(Timetable &timetable, const Shape &shape);

} // namespace dtc::timetables
