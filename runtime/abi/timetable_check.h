// What is wrong with a timetable. The validator of programs asks it of what it reads and the compiler of what it has
// planned, so a mistake is caught where it is made, with the words that a program with it would be refused with.
//
// Two questions. Passes: does each micro-batch pass forward and backward through each stage once, in this order, and
// backward in the order of the micro-batches, so that sums of gradients do not depend on the timetable? Places: was
// what an entry reads in memory of several places written there for the micro-batch, stage and step that it works on?
// A place that was taken too early shows as a read of somebody else's.
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

/// A list, as far as timetables are judged by it.
struct JudgedList {
  CommandList::Duty duty = CommandList::ONCE;
  /// Parts of memory, by number: what it reads before it has written there itself, and what it writes.
  std::vector<size_t> reads, writes;
};

/// The lists of a program, and the memory of several places in which they meet: cut into parts, of which each has one
/// writer at a time. What the host fills is no part.
struct JudgedLists {
  std::map<std::string_view, JudgedList> byName;
  std::vector<uint32_t> spaces;                     ///< of each part: its space, an index into the role's
  std::function<std::string(size_t)> describe = {}; ///< a part, for messages: "byte 64"
};

/// What is wrong with the passes of a timetable of `role`, in a model of `stages` stages, with the entries to blame;
/// empty: nothing. An entry names a list, a stage, a micro-batch and places that there are. `microBatches`: of a step;
/// 0: as many as the entries name.
std::string findPassFault(const Role &role, const Timetable &timetable, const JudgedLists &lists, int64_t stages,
                          int64_t microBatches);

/// What is wrong with the places of a timetable that has no fault of passes.
std::string findPlaceFault(const Role &role, const Timetable &timetable, const JudgedLists &lists);

/// "list 'forward' on micro-batch 2 in stage 1 (entry 3)", entries counted from 0: how messages name an entry of a
/// timetable.
std::string describeEntry(const Timetable &timetable, const TimetableEntry &entry);

} // namespace dtc::abi
