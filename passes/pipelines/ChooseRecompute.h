// What is computed again so that a step fits into memory, and takes the least time of all that fits.
//
// Each layer is treated in one of two ways, the first so many of a stage in the one that keeps less: they are the last
// in the backward pass, when most else is gone. Such pairs are tried for all that abi::Recompute names, and of each
// pair the fewest layers that fit, by bisection. Each trial is a plan (Planner.h): its memory is exact.
//
// A larger limit never leads to a longer step: bisection then ends with as many layers or fewer, whatever memory does
// in between, and more pairs fit.
#pragma once

#include "passes/pipelines/Planner.h"
#include "timing/cluster/cluster.pb.h"

namespace dtc {

struct ChosenRecompute {
  std::vector<RecomputeRule> rules; ///< for Choices::recompute
  uint64_t bytes = 0;               ///< of the rank that needs most
  double flops = 0;                 ///< of a step, of all stages
  double flopsOfNone = 0;           ///< if nothing were computed again
  double seconds = 0;               ///< of a step's kernels and bytes sent, on the stage that has most
  std::string text;                 ///< "5 of 12 layers full, 7 cheap"
};

/// `limit`: bytes of a rank's arena. `device`: for which kernels take how long. Of `given` all counts but what is
/// computed again. Fails, with a diagnostic that says the least that a rank needs, where nothing fits.
mlir::FailureOr<ChosenRecompute> chooseRecompute(Planner &planner, const Choices &given, uint64_t limit,
                                                 const timing::Device &device);

} // namespace dtc
