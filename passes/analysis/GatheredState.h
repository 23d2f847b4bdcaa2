// State that lives in pieces on several ranks and is gathered here: the one place that says what that is. *Keep*
// decides which readers share a gather, *when* moves its start; neither may take for it what the other does not.
#pragma once

#include "dialect/IR/Ops.h"

#include <optional>

namespace dtc {

/// Whether an operation shows another's tensor in another way and moves nothing.
bool isView(mlir::Operation *op);

/// Whether a value is made of one stored tensor (PortAttr::isState) and nothing else: itself, or a view of it, or as
/// converted to 16 bits, or moved.
bool isOfState(mlir::Value value);

/// Whether two values are made of one stored tensor in the same way, so that they are equal. What operations say of the
/// model and of their reasons does not count, nor the barrier that keeps one from being merged with the other.
bool isSameState(mlir::Value a, mlir::Value b);

/// What a collective makes of a stored tensor.
struct GatheredState {
  /// All that makes it, the last first: that is the collective. Each reads the next alone.
  llvm::SmallVector<mlir::Operation *, 2> steps;
  mlir::BlockArgument stored;

  mlir::Value value() const { return steps.front()->getResult(0); }
};

/// Nothing where `op` is no collective of state, or is split into its start and its wait.
std::optional<GatheredState> findGatheredState(mlir::Operation *op);

/// All of a block that are read in it, in their order. What goes on to other ranks, as a slice that is gathered again,
/// is a step of the last collective; what is returned is no gather.
std::vector<GatheredState> findGatheredState(mlir::Block &block);

} // namespace dtc
