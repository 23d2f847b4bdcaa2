// Plans of a step with layers treated in different ways, each made once.
#pragma once

#include "passes/pipelines/search/CommandSeconds.h"
#include "timing/cluster/cluster.h"

#include <memory>

namespace dtc {

/// How a layer is treated between its forward and its backward pass.
struct LayerTreatment {
  abi::Recompute recompute;
  bool sharesGathers = false; ///< parameters that are gathered for the forward pass stay whole for the backward pass
  bool operator==(const LayerTreatment &) const = default;
};

/// How each layer of the model is treated, in their order.
using Treatment = std::vector<LayerTreatment>;

/// The outcome of a treatment.
struct RecomputeTrial {
  Treatment treatment;
  std::vector<uint64_t> bytes; ///< of a rank's arena, by stage
  std::vector<double> seconds; ///< by stage: kernels and what is sent, one after the other
  uint64_t kept = 0;           ///< keptBytes of all stages
  double flops = 0;            ///< of a step, of all stages

  uint64_t most() const;
  double slowest() const;
};

class RecomputeTrials {
public:
  /// Everything in `given` counts except what is recomputed; what it says about gathers takes precedence over what is
  /// tried. All arguments except `device` must outlive this object.
  RecomputeTrials(Planner &planner, const Choices &given, const timing::Device &device, const timing::Layout *layout);

  const std::vector<PlannedLayer> &layers() const { return layersOfModel; }
  /// The number of layers in each stage.
  const std::vector<int64_t> &perStage() const { return layersOfStages; }
  const CommandSeconds &costs() const { return seconds; }
  const std::vector<std::unique_ptr<RecomputeTrial>> &all() const { return trials; }

  /// Whether it may be tried that layers of a list share gathers.
  bool mayShareGathers(const std::string &list) const { return gatheringLists.contains(list); }
  mlir::FailureOr<const RecomputeTrial *> attempt(const Treatment &treatment);
  /// The given choices, with this treatment.
  Choices choicesOf(const Treatment &treatment) const;

private:
  Planner &planner;
  const Choices &given;
  timing::Device device;
  CommandSeconds seconds;
  std::vector<PlannedLayer> layersOfModel;
  std::vector<int64_t> layersOfStages;
  std::set<std::string> gatheringLists; ///< of layers
  std::vector<std::unique_ptr<RecomputeTrial>> trials;
};

/// "5 of 12 layers full, 7 cheap; parameters of 4 gathered once", in the order of the model.
std::string describe(const Treatment &treatment);

} // namespace dtc
