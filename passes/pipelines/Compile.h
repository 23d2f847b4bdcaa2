// From a model's module to a program: the five phases, one after the other.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "passes/choices/Choices.h"
#include "passes/pipelines/What.h"
#include "passes/pipelines/Where.h"
#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <functional>
#include <optional>
#include <string>

namespace dtc {

/// The forms at which a compilation can stop.
enum class Phase { What, Where, Keep, How, When };

/// Choices, and how long a step takes with them.
struct RankedPlan {
  Choices choices;
  double seconds = 0;
};

/// The outcome of trials.
struct SearchedOrder {
  Choices choices;
  double before = 0, after = 0;  ///< seconds of a step: before, and with what was found
  uint64_t plans = 0;            ///< that were tried
  bool isComplete = false;       ///< nothing was left to try
  std::vector<RankedPlan> tried; ///< all that fit, in the order in which they were tried; the first is the given one
};

inline constexpr uint64_t usualEffort = 128;

struct CompileOptions {
  WhatOptions what;
  WhereOptions where;
  std::string target = "native"; ///< see findTarget in passes/lower/Target.h
  uint64_t memoryLimit = 0;      ///< bytes for one rank's arena; 0: none
  Choices choices;
  std::optional<bool> copies; ///< dt-keep-copies; nothing: as the target prefers
  const timing::Layout *layout = nullptr; ///< where the ranks will be, if that is known: costs are computed with it
  bool warnsOfBubble = true;              ///< whether a pipeline with fewer micro-batches than ranks is warned of
  /// How many plans to try for a better order than the simple one, counting that one (SearchOrder.h); without a layout
  /// nothing can be predicted, and nothing is tried.
  uint64_t scheduleEffort = usualEffort;
  /// Called with every pass manager before it runs: IR printing, timing, crash reproducers.
  std::function<void(mlir::PassManager &)> configure;
};

struct CompiledProgram {
  abi::Manifest manifest;                ///< complete except for model_directory, model_config_json and training
  std::string code;                      ///< the kernels': a shared object, or the parts that the manifest names
  std::optional<SearchedOrder> searched; ///< if an order was searched for
};

/// Model flops of forward and backward for one token, by the module's @loss (countModelFlops); 0 if it has no @loss or
/// no tokens.
mlir::FailureOr<double> flopsPerToken(mlir::ModuleOp module);

/// Runs the phases up to and including `last` on a module in Form 0, which is changed. Errors are diagnostics of the
/// module's context; if the compiler itself is to blame, the module has `dt.broken`.
mlir::LogicalResult runPhases(mlir::ModuleOp module, const CompileOptions &options, Phase last);

/// All phases, on a clone: a module in Form 0 does not change, except that it gets `dt.broken` if the compiler itself
/// is to blame for a failure. With `generateCode` unset the kernels are only described, for checks that run no native
/// code. `last` receives the final clone: destroying it is work, too, which can be done later.
mlir::FailureOr<CompiledProgram> compile(mlir::ModuleOp module, const CompileOptions &options, bool generateCode = true,
                                         mlir::OwningOpRef<mlir::ModuleOp> *last = nullptr);

} // namespace dtc
