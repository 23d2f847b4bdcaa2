// The stages of a pipeline, and the ranks along it, which may have several each. Ranks that have the same stages play
// one role.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace dtc {

/// How many ranks there are along the mesh's axis `pp`; 1 without that axis.
int64_t ranksAlongPipeline(mlir::ModuleOp module);
/// The rank along the pipeline of each stage: as `dt.stage_ranks` says, else each rank has one stage.
llvm::SmallVector<int64_t> stageRanksOf(mlir::ModuleOp module);
/// How many of `count` layers each stage has where nobody chose: as evenly as possible. Layers left over are spread
/// along the pipeline. Where ranks have several stages, each goes to the first stage without one of the ranks with the
/// fewest layers, so that ranks are even, too. `rankOf`: of each stage, its rank.
std::vector<int64_t> evenCut(int64_t count, llvm::ArrayRef<int64_t> rankOf);
/// The stage of each of a model's `count` layers, in order: as the module's `dt.stage_layers` says, else as evenly as
/// possible. Empty if the attribute is for other stages or another number of layers.
llvm::SmallVector<int64_t> stagesOfLayers(mlir::ModuleOp module, int64_t count);

/// How many stages a module has been cut into; 1 where it has not been cut.
int64_t stagesOf(mlir::ModuleOp module);
/// How many roles it has: ranks along the pipeline once it has been cut.
int64_t rolesOf(mlir::ModuleOp module);
/// The role that runs a function; 0 for one without a duty.
int64_t roleOf(mlir::func::FuncOp function);
/// A role's functions, in the module's order. A module that was not cut has one role.
llvm::SmallVector<mlir::func::FuncOp> functionsOf(mlir::ModuleOp module, int64_t role);
/// The functions of each role, found in one walk over the module.
std::vector<llvm::SmallVector<mlir::func::FuncOp>> functionsOfRoles(mlir::ModuleOp module);
/// The stage whose micro-batch a tensor belongs to that a function takes or returns: the function's own, or the one that
/// a copy takes it from.
int64_t ownerOf(mlir::func::FuncOp function, mlir::dt::PortAttr port);

/// From which rank along the pipeline to which other one a tensor that a stage's function sends or receives moves.
struct Route {
  int64_t from = 0, to = 0;
  bool isLocal() const { return from == to; } ///< both stages are on one rank
};
Route routeOf(mlir::func::FuncOp function, mlir::dt::PortAttr port);

/// The name of a role in messages and `dtc inspect`: "stage 1", "stages 0 and 7", "all" of a module that was not cut.
std::string nameOfRole(mlir::ModuleOp module, int64_t role);

} // namespace dtc
