// The phase "what": from a model's loss to one training step over logical tensors.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace dtc {

/// What the phase needs to know; the fields are explained at dt-build-update.
struct WhatOptions : mlir::PassPipelineOptions<WhatOptions> {
  Option<int64_t> accumulation{*this, "accumulation", llvm::cl::desc("micro-batches in a step"), llvm::cl::init(1)};
  Option<std::string> compute{*this, "compute", llvm::cl::desc("type of contractions and attention: f32 or bf16"),
                              llvm::cl::init("f32")};
  Option<std::string> gradients{*this, "gradients", llvm::cl::desc("type in which gradients travel: f32 or bf16"),
                                llvm::cl::init("f32")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::desc("one of runtime/abi/optimizers.h"),
                                llvm::cl::init("adamw")};
  ListOption<std::string> settings{*this, "settings", llvm::cl::desc("of the optimizer: beta1=0.9, ...")};
  Option<bool> generates{*this, "generates", llvm::cl::desc("functions that generate, and no training step"),
                         llvm::cl::init(false)};
  Option<double> clipNorm{*this, "clip-norm", llvm::cl::desc("greatest gradient norm; 0: unbounded"),
                          llvm::cl::init(0.0)};
  Option<bool> asynchronous{*this, "asynchronous", llvm::cl::desc("each stage of a pipeline updates by itself"),
                            llvm::cl::init(false)};
  Option<bool> earlyUpdate{*this, "early-update", llvm::cl::desc("updates begin before the norm is known"),
                           llvm::cl::init(false)};
};

/// Appends the phase's passes: takes a module with @loss to one with @micro, @micro_next (when accumulating), @reduce,
/// @update and @eval, or one with @prompt and @generate to the form of these that runs; the result passes
/// dt-verify-what.
void buildWhatPipeline(mlir::OpPassManager &manager, const WhatOptions &options);

/// Registers the phase's passes and "dt-what", the whole phase.
void registerWhat();

} // namespace dtc
