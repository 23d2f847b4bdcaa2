// Where a pipeline is cut, by what its layers cost on the devices that compute them.
//
// One plan of the even cut says what each layer costs: the kernels and collectives of its forward pass and of both
// parts of its backward pass, one after the other (CommandSeconds.h; what is sent counts as if nothing hid it). What
// belongs to no layer counts where it is done: the embeddings with the first stage, the head and the loss with the
// last. Where ranks have different devices, each layer costs what it takes on the slowest device that computes the
// stage. StageCuts.h finds the cuts whose slowest rank is fastest.
//
// The best of them that fits into the memory is taken. Of a cut that does not fit, those are not tried that give as
// many layers to each rank without room; at most `mostCutPlans` are planned. If none fits, the one that lacks least is
// taken, and it is refused as any program that is too large. A cut that saves less than a thousandth of the even one's
// time is not worth a choice.
//
// A profile of a run (StageProfile.h) takes the place of predicted costs. Then the cut of that run is compared with,
// not the even one.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "passes/pipelines/search/StageCuts.h"
#include "passes/pipelines/search/StageProfile.h"
#include "timing/cluster/cluster.h"

#include <optional>
#include <string>

namespace dtc {

/// Cuts that are planned to see whether they fit.
inline constexpr size_t mostCutPlans = 8;

struct BalancedStages {
  Choices choices;          ///< those given, with `layers` unless the even cut is the best
  LayerCut chosen, even;    ///< with seconds of a micro-batch; of a profile, `even` is the cut that ran
  bool isForMemory = false; ///< a cut that is faster, or the even one, does not fit
};

/// The cut by what a run measured.
struct ProfiledStages {
  BalancedStages cut;              ///< its choices have `layers` in any case
  std::vector<std::string> stages; ///< of each rank along the pipeline: "stage 0", "stages 1 and 2"
  std::vector<double> seconds;     ///< of each rank, of a micro-batch, as measured
  std::string uneven;              ///< as findUnevenStages has it, of the cut that ran, however even it is
  bool isOfThisCut = false;        ///< each layer ran on the rank where the given choices put it
};

/// Nothing where there are no stages, where the choices or the strategy say how many layers each has, or where there is
/// one layer for each. `limit`: bytes of a rank's arena, 0: none; devices and nodes have as much memory as the layout's
/// cluster says. Where it is open what is recomputed, memory is that of recomputing everything. Fails, with
/// diagnostics, where `given` leads to no plan.
mlir::FailureOr<std::optional<BalancedStages>> balanceStages(Planner &planner, const Choices &given, uint64_t limit,
                                                             const timing::Layout &layout);

/// Likewise by a profile, whatever the choices and the strategy say; the number of stages stays. Where the profile does
/// not tell which cut ran, it is taken to be that of `given`. Without a layout all ranks have the device `assumed`, and
/// only the limit bounds memory. Fails, with diagnostics, also where the profile is of another model, or of a pipeline
/// of another number of ranks.
mlir::FailureOr<ProfiledStages> balanceByProfile(Planner &planner, const Choices &given, const StageProfile &profile,
                                                 uint64_t limit, const timing::Device &assumed,
                                                 const timing::Layout *layout);

/// For people, where the slowest rank takes more than a tenth longer than that of the best cut: by how much, why, and
/// which cut that is. Empty where it does not. Without a layout all ranks have the device `assumed`.
mlir::FailureOr<std::string> findUnevenStages(Planner &planner, const Choices &given, const timing::Device &assumed,
                                              const timing::Layout *layout);

/// Seconds of what each stage and each layer does for a micro-batch, by a plan with these choices.
mlir::FailureOr<StageCutCosts> stageCutCosts(Planner &planner, const Choices &choices, const PlannedCut &cut,
                                             const timing::Device &assumed, const timing::Layout *layout);

} // namespace dtc
