// Finds what is wrong with a timetable. The validator of programs checks what it reads and the compiler what it has
// planned. So a mistake is caught where it is made, with the message that would refuse the program.
//
// Two questions. Passes: does each micro-batch pass forward and backward through each stage once, in this order, and
// backward in the order of the micro-batches, so that sums of gradients do not depend on the timetable? A timetable that
// says that they do (sums_by_timetable) may have any order. Places: was what an entry reads in a space of several places
// written there for the micro-batch, stage and step that it works on? A place that was reused too early shows as a read
// of another entry's data.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::abi {

/// What a timetable check needs to know about a list.
struct JudgedList {
  CommandList::Duty duty = CommandList::ONCE;
  /// Parts of memory, by number: those it reads before writing them itself, and those it writes.
  std::vector<size_t> reads, writes;
};

/// The lists of a program, and the spaces of several places that they share, divided into parts. Each part has one
/// writer at a time. Memory that the host fills is not a part.
struct JudgedLists {
  std::map<std::string_view, JudgedList> byName;
  std::vector<uint32_t> spaces;                     ///< of each part: its space, an index into the role's
  std::function<std::string(size_t)> describe = {}; ///< a part, for messages: "byte 64"
};

/// What is wrong with the passes of a timetable of `role`, in a model of `stages` stages, with the entries at fault;
/// empty: nothing. Every entry must name an existing list, stage, micro-batch and places. `microBatches`: of a step; 0:
/// as many as the entries name.
std::string findPassFault(const Role &role, const Timetable &timetable, const JudgedLists &lists, int64_t stages,
                          int64_t microBatches);

/// What is wrong with the places of a timetable whose passes have no fault.
std::string findPlaceFault(const Role &role, const Timetable &timetable, const JudgedLists &lists);

/// "list 'forward' on micro-batch 2 in stage 1 (entry 3)", entries counted from 0: how messages name an entry of a
/// timetable.
std::string describeEntry(const Timetable &timetable, const TimetableEntry &entry);

} // namespace dtc::abi
