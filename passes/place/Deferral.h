// Which partial sums an operation takes unreduced.
//
// A partial sum may pass through an operation that is linear in it, if this reduces nothing twice or at a larger size:
//   - an addition takes partial sums when all its terms are partial over the same axes and used nowhere else (a
//     constant zero is partial over any axes);
//   - another linear operation takes one that is used nowhere else when its result is no larger, is partial anyway, or
//     is returned or accumulated;
//   - one with several uses passes only if each of them makes a partial result anyway, or returns or accumulates it.
// Everything else is resolved first.
#pragma once

#include "passes/place/LocalValues.h"

namespace dtc {

struct Deferral {
  AtomMask mask = 0;                ///< the axes that stay partial through the operation
  llvm::SmallVector<bool> operands; ///< which operands are taken unreduced
};

/// Which uses hand a value on to an accumulator, in a function that does not change meanwhile.
class Accumulations {
public:
  /// The function's result that may be partial, or the sum with such an argument.
  bool contains(mlir::OpOperand &use);

private:
  /// Operations with such an argument: a sum of all gradients' norms has as many operands as there are queries.
  llvm::DenseMap<mlir::Operation *, bool> takePartialArguments;
};

/// Decides for one operation. May remove axes from `iteration`: an addition of partial sums is done unsplit along what
/// they are partial over; a sum onto a value that is not zero is not split along what is summed.
Deferral decideDeferral(mlir::dt::FactorOpInterface op, Iteration &iteration, const AxisTable &axes,
                        LocalValues &values, Accumulations &accumulations);

} // namespace dtc
