// Where to cut a model's layers into the stages of a pipeline, on plain numbers.
//
// Of every micro-batch a rank computes all its stages, so the slowest rank decides how long a micro-batch takes. The
// best cut is the one whose slowest rank is fastest; of equal ones, the one with the smallest sum of squares of the
// ranks' times, then the one with the smallest sum of squares of the stages' numbers of layers.
//
// Dynamic programming over the stages and the layers, both in order: for each stage and each layer at which it may end,
// the best cuts of what comes before are kept. Where each rank has one stage, what is behind does not depend on how the
// layers before are cut, so that a best cut is found. Where ranks have several (a loop or a V), cuts also differ in
// what ranks have taken already. Then 256 are kept for each place, which is exact only as long as there are no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

/// Seconds of a micro-batch, forward and backward, or any other unit; none is negative.
struct StageCutCosts {
  std::vector<int64_t> rankOf;             ///< of each stage: its rank along the pipeline, from 0
  std::vector<double> outside;             ///< of each stage: what it does besides its layers (embeddings, head, loss)
  std::vector<std::vector<double>> layers; ///< of each rank: each layer on its devices
};

struct LayerCut {
  std::vector<int64_t> layers; ///< of each stage
  std::vector<double> seconds; ///< of each rank, all its stages together

  double slowest() const;
  double mean() const;
};

/// What a cut into these numbers of layers costs.
LayerCut costOfCut(const StageCutCosts &costs, std::vector<int64_t> layers);

/// At most `most` cuts, the best first; each stage has a layer at least, and there must be as many layers as stages.
/// The even cut (passes/analysis/Stages.h) is among them unless there are `most` better ones. Cuts whose slowest rank
/// takes more than twice as long as that of the even cut are left out. Equal input gives equal output.
std::vector<LayerCut> bestCuts(const StageCutCosts &costs, size_t most);

} // namespace dtc
