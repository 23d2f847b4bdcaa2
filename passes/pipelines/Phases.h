// The phases as the planner runs them, some at a time.
#pragma once

#include "passes/lower/TargetCode.h"
#include "passes/pipelines/Compile.h"

namespace dtc {

class Target;

/// Runs the phases from `first` to `last`, with these choices instead of the options'. Each ends in a verifier of its
/// own contract, except *when*, whose verifier is verifyWhen; without `isForProgram`, *keep* and *how* have none
/// either. *When* writes all rules for buckets into `buckets`, including those that it has chosen.
mlir::LogicalResult runPhases(mlir::ModuleOp module, const CompileOptions &options, const Choices &choices, Phase first,
                              Phase last, bool isForProgram, std::vector<BucketRule> *buckets = nullptr);
/// Says how many stages a module is to be cut into, and on which ranks they are, as a pipeline's timetable wants it.
mlir::LogicalResult setStages(mlir::ModuleOp module, const CompileOptions &options, const Choices &choices);
/// The part of *keep* before the choice of what is recomputed.
mlir::LogicalResult runBeforeRecompute(mlir::ModuleOp module, const CompileOptions &options, const Choices &choices);
/// The part of *when* before an order.
mlir::LogicalResult runLists(mlir::ModuleOp module, const CompileOptions &options, const Choices &choices,
                             std::vector<BucketRule> *buckets = nullptr);
/// Whether the contract of *when* holds and operations obey their own rules, as they did when the model was loaded.
/// Changes nothing in the module, which others may read meanwhile.
mlir::LogicalResult verifyWhen(mlir::ModuleOp module, const CompileOptions &options);
/// Marks that a check of what the compiler itself ensures has failed.
mlir::LogicalResult markBroken(mlir::ModuleOp module);

/// The target that was asked for, or null after an error.
const Target *requireTarget(mlir::ModuleOp module, const std::string &name);
/// One shared object is the whole code; of several sections the manifest says where each is.
void addCode(TargetCode code, CompiledProgram &program);

} // namespace dtc
