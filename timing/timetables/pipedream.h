// PipeDream: 1F1B whose steps overlap (Harlap et al., arXiv:1806.03377; Narayanan et al., SOSP 2019). A step has one
// micro-batch, and each stage updates its parameters by itself after each backward pass. So there is no step that a
// timetable (timetable.h) could list by itself; there is a period, which every rank repeats.
//
// p stages, stage s on rank s. Count time in turns, in each of which a rank does one pass: rank s takes step k forward
// in turn 2 k + s, and back in turn 2 k + 2 p - 1 - s. Both are what it needs one turn after its neighbour has it, and
// they never fall together. From turn p - 1 on, no rank is idle. Rank 0 is the last to end step k, in turn 2 (k + p) -
// 1; the two turns up to that are the period of the running step k, in which rank s
//
//   takes a step forward that is p - 1 - s/2 ahead (s/2 rounded down), first if s is even,
//   and one back that is s/2 ahead, first if s is odd.
//
// E.g. p = 4, with the step ahead of the running one:
//
//   rank 0   F+3 B+0
//   rank 1   B+0 F+3
//   rank 2   F+2 B+1
//   rank 3   B+1 F+2
//
// Before its forward pass of step k a stage has updated its parameters with the steps before k - d, d = p - 1 - s: it
// computes with parameters that have had max(0, k - d) updates. Its backward pass of step k comes d steps later, before
// which it must keep these. So p - s versions are under way, the newest included.
#pragma once

#include <cstdint>
#include <string_view>

namespace dtc::timetables::pipedream {

inline constexpr std::string_view name = "pipedream";

/// By how many updates the parameters are behind with which a stage computes.
constexpr int64_t delayOf(int64_t stages, int64_t stage) { return stages - 1 - stage; }
/// How many versions of its parameters a stage has under way at most.
constexpr int64_t versionsOf(int64_t stages, int64_t stage) { return delayOf(stages, stage) + 1; }

/// How many steps ahead of the running one a stage's passes are.
constexpr int64_t forwardAhead(int64_t stages, int64_t stage) { return stages - 1 - stage / 2; }
constexpr int64_t backwardAhead(int64_t stage) { return stage / 2; }

/// Whether the forward pass is the first of the two in a period.
constexpr bool beginsForward(int64_t stage) { return stage % 2 == 0; }

} // namespace dtc::timetables::pipedream
