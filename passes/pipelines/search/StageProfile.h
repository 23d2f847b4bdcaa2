// What the layers of a pipeline took in a run, and what they would take elsewhere, on plain numbers.
//
// A run measures a layer only on the rank that has it, its owner. On another rank the layer would take longer by as
// much as that rank is slower than the owner. How slow a rank is follows from its own layers: their measured seconds
// divided by their predicted ones. So a straggler has larger costs for all layers, and a layer that the prediction
// takes for too cheap stays too expensive by the same factor wherever it goes.
#pragma once

#include "passes/pipelines/search/StageCuts.h"

#include <map>
#include <string>
#include <vector>

namespace dtc {

/// Seconds of a micro-batch, by rank along the pipeline. Layers have their names in the model: "h.3".
struct StageProfile {
  std::vector<std::map<std::string, double>> layers; ///< those of which the rank computed something
  std::vector<double> outside;                       ///< what was in no layer: embeddings, head, loss

  /// All that each rank computed.
  std::vector<double> ofRanks() const;
};

/// Why this is no profile of a model with these layers, in so many ranks along its pipeline; empty where it is one.
std::string findMismatch(const StageProfile &profile, const std::vector<std::string> &layers, size_t ranks);

/// The rank of each layer: the one that computed it for the longest time. What others compute of it, such as a
/// conversion where it is read, is little.
std::vector<int64_t> ownersOf(const StageProfile &profile, const std::vector<std::string> &layers);

/// How many layers each stage had, where stages are on these ranks; none where the owners do not tell, because stages
/// next to each other are on one rank, or there were other stages.
std::vector<int64_t> cutOfOwners(const std::vector<int64_t> &owners, const std::vector<int64_t> &rankOf);

/// What each layer takes on each rank, and what each rank does besides, divided among its stages as it was predicted.
/// `predicted` has the stages to cut; the profile must fit these layers.
StageCutCosts measuredCosts(const StageProfile &profile, const std::vector<std::string> &layers,
                            const StageCutCosts &predicted);

} // namespace dtc
