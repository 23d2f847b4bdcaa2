// What is recomputed, and which parameters stay gathered from the forward to the backward pass, so that a step fits
// into memory, and takes the least time of all that fit.
//
// Ways to treat a class of layers are those that abi::Recompute names, and those that minimum cuts of a layer's own
// graph find for every price of a byte (KeepProblem.h): which values are kept by name. Where parameters are gathered,
// each way is tried with and without gathers that forward and backward pass share. The memory and time that each way
// takes are measured on a plan with it. Finding the mixes of ways over all layers that are the best for their memory is
// then a knapsack problem (Knapsack.h); layers that keep less come first in a stage, as they are the last in the
// backward pass, when most other memory is free. Each mix is planned (Planner.h), so its memory is exact, and of those
// that fit the fastest is taken. Only if none fits, layers are recomputed in groups.
//
// A larger limit never leads to a longer step: which mixes are planned does not depend on it.
#pragma once

#include "passes/pipelines/search/Planner.h"

namespace dtc {

struct ChosenRecompute {
  Choices choices;          ///< those given, with what was chosen
  uint64_t bytes = 0;       ///< of the rank that needs most
  double flops = 0;         ///< of a step, over all stages
  double flopsOfNone = 0;   ///< if nothing were recomputed
  double seconds = 0;       ///< of a step's kernels and bytes sent, on the stage with the most
  std::string text;         ///< as from describe()
  double secondsOfNone = 0; ///< if nothing were recomputed
};

/// `limit`: bytes of a rank's arena. `device`: what kernels run on, for their times; `layout`: the same for
/// collectives, or null. Everything in `given` counts except what is recomputed; its rules of gathers take precedence
/// over those that are chosen. If nothing fits, fails with a diagnostic that says the least that a rank needs.
mlir::FailureOr<ChosenRecompute> chooseRecompute(Planner &planner, const Choices &given, uint64_t limit,
                                                 const timing::Device &device, const timing::Layout *layout = nullptr);

} // namespace dtc
