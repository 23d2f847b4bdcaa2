// The phase "keep": what lives from forward to backward?
#pragma once

#include "passes/keep/cut/Crossings.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace dtc {

struct KeepOptions : mlir::PassPipelineOptions<KeepOptions> {
  Option<int64_t> accumulation{*this, "accumulation", llvm::cl::desc("micro-batches in a step"), llvm::cl::init(1)};
  Option<bool> copies{*this, "copies", llvm::cl::desc("parameters are kept in the type that products compute in, too"),
                      llvm::cl::init(false)};
  Option<bool> generates{*this, "generates", llvm::cl::desc("functions that generate, and no training step"),
                         llvm::cl::init(false)};
  Option<uint64_t> gatherAhead{*this, "gather-ahead",
                               llvm::cl::desc("for how many readers ahead parameters are whole; as in dt-when"),
                               llvm::cl::init(2)};
  ListOption<std::string> recompute{*this, "recompute",
                                    llvm::cl::desc("what is made again, by class of layer; see dt-recompute-layers")};
  ListOption<std::string> gathers{*this, "gathers", llvm::cl::desc("of some parameters; see dt-share-gathers")};
  ListOption<std::string> rows{*this, "rows", llvm::cl::desc("of some parameters; see dt-gather-rows")};
  ListOption<std::string> split{*this, "split", llvm::cl::desc("of some layers; see dt-split-products")};
  ListOption<std::string> splitGradients{*this, "split-gradients",
                                         llvm::cl::desc("of some parameters; see dt-split-gradients")};
};

/// Appends the phase's passes: takes a module with local shapes, and decides in it what is kept and what is recomputed;
/// the last micro-batch continues with the step's reductions (@micro_last). `costs`: by which it is decided how what
/// crosses the cuts of a pipeline travels, where no choice says so.
void buildKeepPipeline(mlir::OpPassManager &manager, const KeepOptions &options, const CrossingCosts &costs = {});
/// The same without the verifier that closes the phase.
void buildKeepPasses(mlir::OpPassManager &manager, const KeepOptions &options, const CrossingCosts &costs = {});
/// Those of them that come before anything is recomputed.
void buildBeforeRecompute(mlir::OpPassManager &manager, const KeepOptions &options);

/// Registers the phase's passes and "dt-keep", the whole phase.
void registerKeep();

} // namespace dtc
