// The timetable of a pipeline, by what a step takes on a cluster.
//
// Shapes are tried: one stage a rank and, where there are two layers for each, two stages a rank in a loop and in a V.
// For each the cut is chosen by costs (BalanceStages.h), and one plan, with backward passes in two, says what each
// stage's passes take, which bytes a micro-batch leaves, and how much memory remains for that. With these figures
// timing/timetables/search.h looks for a timetable. What it finds, the two named timetables of the shape that are the
// fastest by the same figures, and 1f1b are then planned and simulated as whole programs (timing/events): the fastest
// that fits is taken.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"
#include "timing/timetables/simulate.h"

namespace dtc {

/// As a choice, before one has been made.
inline constexpr std::string_view searchedTimetable = "auto";

struct ChosenTimetable {
  Choices choices;         ///< those given, with a timetable, and the cut that it needs
  std::string text;        ///< for people: a name, or what was found
  double seconds = 0;      ///< of a step
  std::string bestNamed;   ///< the fastest named timetable that was simulated and fits; empty: none fits
  double namedSeconds = 0; ///< of a step with it
  size_t simulated = 0;    ///< timetables
};

/// `given` has any timetable. `limit`: bytes of a rank's arena, 0: none; devices and nodes have as much memory as the
/// cluster says. Where it is open what is recomputed, everything is, for these plans. Fails, with a diagnostic, where
/// no timetable can be planned or none fits.
mlir::FailureOr<ChosenTimetable> chooseTimetable(Planner &planner, const Choices &given, int64_t microBatches,
                                                 uint64_t limit, const timing::Layout &layout);

/// What the passes of each stage take and leave, by a plan whose backward passes are in two. A place of a rank with
/// several stages has the bytes of the largest, so each of them counts as much.
timetables::Costs timetableCosts(const Plan &plan, const std::vector<int64_t> &rankOf, const abi::Mesh &mesh,
                                 const timing::Layout &layout);

} // namespace dtc
