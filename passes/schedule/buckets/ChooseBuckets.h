// How large buckets are: rules from a size in bytes, or from what starts and bytes cost.
#pragma once

#include "passes/choices/Choices.h"
#include "passes/schedule/FlatStep.h"
#include "timing/cluster/cluster.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// Seconds of a collective: what each start takes, whatever it moves, and what the bytes take.
struct StartCost {
  double latency = 0, moving = 0;
};

/// What collectives cost, as far as that is known.
struct StartCosts {
  std::function<StartCost(const FlatMove &move, double payload)> of; ///< bytes as abi::payloadBytes counts them
  std::string links;                                                 ///< the links, for people
  double mostBytes = 0; ///< of a bucket, where the costs are only assumed; 0: any number
};

/// Ring collectives over links that are only guessed: 5 us and 25 GB/s, as within and between today's nodes. Buckets of
/// at most 1 MB, so that nothing large waits if the guess is wrong.
StartCosts assumedCosts();

/// Costs by the cluster's figures for the first rank's groups. `layout` must outlive them.
StartCosts costsOn(const timing::Layout &layout, const abi::Mesh &mesh);

/// Rules for starts that no rule in `given` names.
///
/// Starts of one kind, group and type differ in their names, and each layer has one start of each name. So the choice
/// is how many layers go together, or which starts of a single layer.
///   Bytes  what is smaller than that goes together, as many layers as fit; of layers that are larger, as many starts
///          of one layer as fit. What is larger is never held up.
///   Auto   what has more latency than it takes to move goes together: of so many layers that the latencies of all
///          starts and the last bucket, which nothing hides, are least in sum.
/// Empty rules and a `problem` where the size is larger than all gradients together.
struct ChosenBuckets {
  std::vector<BucketRule> rules;
  std::string problem;
};
ChosenBuckets chooseBuckets(const std::vector<const FlatRole *> &roles, const abi::BucketSize &size,
                            const StartCosts &costs, const std::vector<BucketRule> &given);

} // namespace dtc
