// The output of `dtc schedule`, for people and for their programs.
#pragma once

#include "timing/timetables/simulate.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

struct ScheduleAnswer {
  timetables::Timetable timetable;
  timetables::Costs costs;
  timetables::Simulated simulated;
  timetables::SteadyState steady;
  std::vector<int64_t> peakStashes; ///< of each rank
  std::string weightsOutOfOrder;    ///< may be empty
  std::string bestNamed;            ///< for "auto": the fastest named timetable that fits; or empty
  double namedSeconds = 0;
};

/// Printed below the picture.
void printSchedule(const ScheduleAnswer &answer);

nlohmann::ordered_json toJson(const ScheduleAnswer &answer);

/// "entries" of docs/json.md: what a rank computes, and when.
nlohmann::ordered_json entriesJson(const timetables::Timetable &timetable, const timetables::Simulated &simulated,
                                   size_t rank);

} // namespace dtc
