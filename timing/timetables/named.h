// The timetables that have a name, from the papers that describe them. p ranks, v stages a rank, m micro-batches; the
// bubbles are overheads (simulate.h) where the passes of all stages take equally long (F = I = W, B = I + W) and
// transfers take no time; stashes are those of a rank, whose stages leave one each for a micro-batch.
//
//   name         v   placement  overhead            stashes of a rank
//   naive        any loop       p - 1               v: one micro-batch through all stages and back before the next
//   gpipe        any loop       (p - 1) / m, v = 1  v m: all forward passes, then all backward passes
//                                                   (Huang et al., arXiv:1811.06965)
//   1f1b         1   loop       (p - 1) / m         min(m, p - rank): as few forward passes ahead as fill the pipeline,
//                                                   then forward and backward passes in turn
//                                                   (Narayanan et al., arXiv:2104.04473)
//   interleaved  2.. loop       (p - 1) / (v m)     (v - 1) p + 2 (p - rank) - 1, at most v m: the same with v stages a
//                                                   rank in rounds of p micro-batches, if p divides m (same paper).
//                                                   Otherwise there are m / p rounds, rounded down but at least one, of
//                                                   equally many micro-batches; a number of rounds that does not divide
//                                                   m is a misfit
//   zb-h1        1   loop       (p - 1) / (3 m)     min(m, p): weight gradients fill what was bubble in 1f1b, m >= p
//                                                   (Qi et al., arXiv:2401.10241)
//   zb-h2        1   loop       0 per rank          min(m, 2 p - 1): more forward passes ahead. The ranks' steps are
//                                                   shifted by one pass each, and m >= 2 p - 1 (same paper)
//   zbv          2   V          0 per rank          min(2 m, 2 p): as much memory as 1f1b's first rank takes, and
//                                                   m >= 2 p - 1 (same paper, section 6)
//   v-half       2   V          -                   about half of zbv's: p + 1 or p + 2 (Qi et al., arXiv:2405.15362)
//   v-min        2   V          -                   about a third of zbv's (same paper)
//   dualpipev    2   V          -                   at most 2 p + 1: forward passes co-scheduled with backward passes,
//                                                   so that one hides the other's communication; m >= 2 p
//                                                   (DeepSeek-AI, arXiv:2412.19437, cut in half as in Sea AI Lab's
//                                                   "DualPipe could be better without the Dual")
//
// In all of them each stage adds its weight gradients in ascending order of micro-batches.
#pragma once

#include "timing/timetables/timetable.h"

#include <span>

namespace dtc::timetables {

struct Shape {
  int32_t ranks = 1, stagesPerRank = 1, microBatches = 1;
};

struct Named {
  std::string_view name;
  Placement placement = Placement::Loop;
  int32_t leastPerRank = 1, mostPerRank = 1;                        ///< stages
  void (*fill)(Timetable &timetable, const Shape &shape) = nullptr; ///< the lists of ranks
  std::string (*misfit)(const Shape &shape) = nullptr;              ///< why there is none of that shape; null: never
};

/// In the order of the table above.
std::span<const Named> allNamed();

/// Null where there is none of that name.
const Named *findNamed(std::string_view name);

/// Why a timetable cannot have that shape, and what to change; empty: it can.
std::string findMisfit(const Named &named, const Shape &shape);

/// The timetable. Throws Error (BadInput) where there is a misfit.
Timetable generate(const Named &named, const Shape &shape);
Timetable generate(std::string_view name, const Shape &shape);

} // namespace dtc::timetables
