// The check of a program's timetable, on those that the compiler makes of named timetables.
#include "runtime/abi/timetable_check.h"

#include "runtime/abi/timetables.h"
#include "timing/timetables/check.h"
#include "timing/timetables/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

namespace dtc::abi {
namespace {

using testing::HasSubstr;
using timetables::Kind;

timetables::Entry pass(Kind kind, int32_t microBatch) { return {.kind = kind, .microBatch = microBatch}; }

/// What is wrong with a stage whose forward pass of micro-batch m leaves something in place m % places for the backward
/// pass.
std::string faultOf(const std::vector<timetables::Entry> &passes, int64_t microBatches, int64_t places,
                    bool sumsByTimetable = false) {
  Role role;
  role.set_name("all");
  role.add_spaces()->set_places(static_cast<uint32_t>(places));
  Timetable step;
  step.set_name(std::string(stepTimetable));
  step.set_sums_by_timetable(sumsByTimetable);
  for (const timetables::Entry &each : passes) {
    TimetableEntry &entry = *step.add_period();
    entry.set_list(each.kind == Kind::Forward ? "F" : "B");
    entry.set_micro_batch(each.microBatch);
    entry.add_places(static_cast<uint32_t>(each.microBatch % places));
  }
  JudgedLists lists;
  lists.byName["F"] = {CommandList::FORWARD_PASS, {}, {0}};
  lists.byName["B"] = {CommandList::BACKWARD_PASS, {0}, {}};
  lists.spaces = {0};
  lists.describe = [](size_t) { return "the stash"; };
  std::string fault = findPassFault(role, step, lists, 1, microBatches);
  return fault.empty() ? findPlaceFault(role, step, lists) : fault;
}

TEST(TimetableCheck, AcceptsNamedTimetablesInAsManyPlacesAsTheirFormulasSay) {
  constexpr int32_t ranks = 4;
  for (std::string_view name : {"naive", "gpipe", "1f1b"})
    for (int32_t m = 1; m <= 9; ++m) {
      timetables::Timetable timetable = timetables::generate(name, {ranks, 1, m});
      for (size_t rank = 0; rank < ranks; ++rank) {
        int64_t stash = timetables::peakStashes(timetable)[rank];
        EXPECT_EQ(faultOf(timetable.ranks[rank], m, stash), "") << name;
        if (stash > 1) {
          EXPECT_THAT(faultOf(timetable.ranks[rank], m, stash - 1), HasSubstr("the place is taken too early")) << name;
        }
      }
    }
}

// If a generator made these mistakes, the compiler would report it.
TEST(TimetableCheck, NamesTheEntriesOfAMistake) {
  using enum Kind;
  EXPECT_EQ(faultOf({pass(Backward, 0), pass(Forward, 0)}, 1, 1),
            "role 'all': its step runs list 'B' on micro-batch 0 in stage 0 (entry 0) before its turn");
  EXPECT_EQ(faultOf({pass(Forward, 0), pass(Forward, 1), pass(Backward, 1), pass(Backward, 0)}, 2, 2),
            "role 'all': its step adds the gradients of list 'B' on micro-batch 0 in stage 0 (entry 3) behind those of "
            "list 'B' on micro-batch 1 in stage 0 (entry 2); they add in the order of the micro-batches");
  EXPECT_EQ(faultOf({pass(Forward, 0), pass(Backward, 0)}, 2, 1),
            "role 'all': its step runs 1 micro-batches of 2 in stage 0");
}

TEST(TimetableCheck, AcceptsAnyOrderWhereSumsDependOnIt) {
  using enum Kind;
  EXPECT_EQ(faultOf({pass(Forward, 0), pass(Forward, 1), pass(Backward, 1), pass(Backward, 0)}, 2, 2, true), "");
  EXPECT_EQ(faultOf({pass(Forward, 0), pass(Forward, 1), pass(Backward, 1), pass(Backward, 1)}, 2, 2, true),
            "role 'all': its step runs list 'B' on micro-batch 1 in stage 0 (entry 3) once more than there is need "
            "for, after list 'B' on micro-batch 1 in stage 0 (entry 2)");
}

/// Only messages give the number of an entry. If every entry were searched for, the time would grow with their square.
TEST(TimetableCheck, TakesTimeByTheEntries) {
  constexpr int32_t microBatches = 200'000;
  constexpr double mostSeconds = 10; // of a processor
  std::vector<timetables::Entry> passes;
  for (int32_t m = 0; m < microBatches; ++m)
    passes.insert(passes.end(), {pass(Kind::Forward, m), pass(Kind::Backward, m)});
  std::clock_t begin = std::clock();
  EXPECT_EQ(faultOf(passes, microBatches, 1), "");
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, mostSeconds);
}

} // namespace
} // namespace dtc::abi
