// What stays of a forward pass for the backward pass, as a plan says for each layer.
#pragma once

#include "passes/keep/recompute/RecomputePlan.h"
#include "passes/keep/recompute/ValueNames.h"

#include "llvm/ADT/DenseSet.h"

namespace dtc {

/// What the forward pass would store if nothing were recomputed, and which of these values stay.
class KeptValues {
public:
  KeptValues(mlir::Block &block, const RecomputePlan &plan);

  /// Emits an error on the first name of the plan that no value of the layer has.
  mlir::LogicalResult check(mlir::Block &block) const;

  /// Whether an operation's result is not stored: it is a view of another tensor, or is computed where it is read.
  bool isPassing(mlir::Operation *op) const { return passing.contains(op); }

  /// Whether the backward pass must not read a value: it is stored and does not stay, or is made from such values.
  bool isLost(mlir::Value value);

private:
  void forEachStored(mlir::Value value, llvm::function_ref<void(mlir::Value, mlir::Operation *)> visit);
  void keepForOthers(mlir::Operation *reader);
  void keepByRule(mlir::Operation *op);

  const RecomputePlan &plan;
  ValueNames names;
  llvm::DenseSet<mlir::Operation *> passing;
  llvm::DenseSet<mlir::Value> kept;
  llvm::DenseMap<mlir::Operation *, bool> lost; ///< for passing operations
};

} // namespace dtc
