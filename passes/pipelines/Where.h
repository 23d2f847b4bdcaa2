// The phase "where": which device holds which piece of each value.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace dtc {

/// What the phase needs to know; the fields are explained at dt-annotate.
struct WhereOptions : mlir::PassPipelineOptions<WhereOptions> {
  Option<std::string> mesh{*this, "mesh", llvm::cl::desc("axes and sizes, such as dp=2,tp=2"), llvm::cl::init("")};
  Option<std::string> strategy{*this, "strategy", llvm::cl::desc("a preset or a TOML file"), llvm::cl::init("ddp")};
  Option<std::string> strategyText{*this, "strategy-text", llvm::cl::desc("what the file says, if it has been read"),
                                   llvm::cl::init("")};
  Option<std::string> entry{*this, "entry", llvm::cl::desc("one more entry after the strategy's"), llvm::cl::init("")};
};

/// Appends the phase's passes: takes a module that passes dt-verify-what to one with local shapes and explicit
/// collectives that passes dt-verify-where.
void buildWherePipeline(mlir::OpPassManager &manager, const WhereOptions &options);

/// Registers the phase's passes and "dt-where", the whole phase.
void registerWhere();

} // namespace dtc
