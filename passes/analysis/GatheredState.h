// State that lives in pieces on several ranks and is gathered here: the one place that says what that is. *Keep*
// decides which readers share a gather, *when* moves its start; both must agree on what it is.
#pragma once

#include "dialect/IR/Ops.h"

#include <optional>

namespace dtc {

/// Whether an operation shows another one's tensor in another form and moves no data.
bool isView(mlir::Operation *op);

/// Whether a value is made from one stored tensor (PortAttr::isState) and nothing else: the tensor itself, a view of
/// it, or the tensor converted to 16 bits or moved.
bool isOfState(mlir::Value value);

/// Whether two values are made from one stored tensor in the same way, so that they are equal. Attributes about the
/// model and about reasons do not count, nor does the barrier that keeps one from being merged with the other.
bool isSameState(mlir::Value a, mlir::Value b);

/// What a collective makes from a stored tensor.
struct GatheredState {
  /// All operations that make it, the last first, which is the collective. Each reads only the next.
  llvm::SmallVector<mlir::Operation *, 2> steps;
  mlir::BlockArgument stored;

  mlir::Value value() const { return steps.front()->getResult(0); }
};

/// Nothing where `op` is no collective of state, or is split into its start and its wait.
std::optional<GatheredState> findGatheredState(mlir::Operation *op);

/// All of a block that are read in it, in their order. A collective whose result goes on to other ranks, such as a
/// slice that is gathered again, is only a step of the last one; one whose result is returned does not count.
std::vector<GatheredState> findGatheredState(mlir::Block &block);

} // namespace dtc
