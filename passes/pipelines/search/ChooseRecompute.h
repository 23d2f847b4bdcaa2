// What is computed again, and which parameters stay gathered from the forward to the backward pass, so that a step fits
// into memory, and takes the least time of all that fits.
//
// Ways to treat a class of layers are those that abi::Recompute names, and those that minimum cuts of a layer's own
// graph find for every price of a byte (KeepProblem.h): which values are kept by name; where parameters are gathered,
// each with gathers that forward and backward pass share, and without. What each way takes of memory and time is
// measured on a plan with it. Mixes of ways over all layers that are the best of their memory are then a knapsack
// (Knapsack.h); layers that keep less come first in a stage, as they are the last in the backward pass, when most else
// is gone. Each mix is planned (Planner.h), so its memory is exact, and of those that fit the fastest is taken. Only
// where none fits, layers are computed again in groups.
//
// A larger limit never leads to a longer step: which mixes are planned does not depend on it.
#pragma once

#include "passes/pipelines/search/Planner.h"

namespace dtc {

struct ChosenRecompute {
  Choices choices;          ///< those given, with what was chosen
  uint64_t bytes = 0;       ///< of the rank that needs most
  double flops = 0;         ///< of a step, of all stages
  double flopsOfNone = 0;   ///< if nothing were computed again
  double seconds = 0;       ///< of a step's kernels and bytes sent, on the stage that has most
  std::string text;         ///< as describe() says it
  double secondsOfNone = 0; ///< if nothing were computed again
};

/// `limit`: bytes of a rank's arena. `device`: for which kernels take how long; `layout`: for which collectives do, or
/// null. Of `given` all counts but what is computed again, its rules of gathers before those that are chosen. Fails,
/// with a diagnostic that says the least that a rank needs, where nothing fits.
mlir::FailureOr<ChosenRecompute> chooseRecompute(Planner &planner, const Choices &given, uint64_t limit,
                                                 const timing::Device &device, const timing::Layout *layout = nullptr);

} // namespace dtc
