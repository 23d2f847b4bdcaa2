// Which partial sums an operation takes as they are.
//
// A partial sum may pass through an operation that is linear in it, if nothing is thereby reduced twice or at a greater
// size:
//   - an addition takes partial sums when all its terms are partial over the same axes and used nowhere else (a
//   constant
//     zero is partial over any axes);
//   - another linear operation takes one that is used nowhere else when its result is no larger, is partial anyway, or
//     is returned or accumulated;
//   - one with several uses passes only if each of them makes a partial result anyway, or returns or accumulates it.
// Everything else is resolved first.
#pragma once

#include "passes/place/LocalValues.h"

namespace dtc {

struct Deferral {
  AtomMask mask = 0;                ///< the axes that stay partial through the operation
  llvm::SmallVector<bool> operands; ///< which operands are taken as they are
};

/// Decides for one operation. May take axes off `iteration`: an addition of partial sums is done unsplit along what
/// they are partial over; a sum onto a value that is not zero is not split along what is summed.
Deferral decideDeferral(mlir::dt::FactorOpInterface op, Iteration &iteration, const AxisTable &axes,
                        LocalValues &values);

} // namespace dtc
