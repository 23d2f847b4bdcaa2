// How the layers of a class may be treated between their forward and their backward pass, and what that takes.
#pragma once

#include "passes/pipelines/search/Knapsack.h"
#include "passes/pipelines/search/RecomputeTrials.h"

#include <map>

namespace dtc {

struct ClassWays {
  std::vector<LayerTreatment> hows;
  /// What a layer takes beyond what it takes without recomputation: as bytes, those that are kept, ...
  std::vector<Way> ways;
  std::vector<Way> atPeak; ///< ... or the arena's, some of which recomputed values need for a while, too
};

/// The ways for each class of layers, by their list: those that abi::Recompute names, and those that minimum cuts of a
/// layer find; where that may be tried, also with shared gathers. Each is measured on a plan in which only this class
/// is treated that way. `nothing`: a plan in which nothing is recomputed and no rule is tried.
mlir::FailureOr<std::map<std::string, ClassWays>> findWays(Planner &planner, const Choices &given,
                                                           RecomputeTrials &trials, const RecomputeTrial &nothing);

} // namespace dtc
