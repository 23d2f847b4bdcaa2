// How the layers of a class may be treated between their forward and their backward pass, and what that takes.
#pragma once

#include "passes/pipelines/search/Knapsack.h"
#include "passes/pipelines/search/RecomputeTrials.h"

#include <map>

namespace dtc {

struct ClassWays {
  std::vector<LayerTreatment> hows;
  /// What a layer takes more than where nothing is made again: of bytes those that are kept, ...
  std::vector<Way> ways;
  std::vector<Way> atPeak; ///< ... or the arena's, which what is made again needs for a while, too
};

/// Of each class of layers, by their list: what abi::Recompute names, and what minimum cuts of a layer find; where
/// it may be tried, likewise with shared gathers. Each is measured on a plan in which only the class is treated so.
/// `nothing`: of a plan in which nothing is made again and no rule is tried.
mlir::FailureOr<std::map<std::string, ClassWays>> findWays(Planner &planner, const Choices &given,
                                                           RecomputeTrials &trials, const RecomputeTrial &nothing);

} // namespace dtc
