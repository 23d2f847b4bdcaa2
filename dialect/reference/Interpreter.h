// The reference interpreter: runs a function of the dt dialect on whole tensors, or a partitioned function on all ranks
// of a mesh in one process. A pass is tested by interpreting a function before and after it.
#pragma once

#include "dialect/IR/HostTensor.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::dt {

/// One rank's tensors: the arguments or the results of a function, in order.
using HostTensors = SmallVector<HostTensor>;

struct InterpreterOptions {
  bool f64 = true; ///< otherwise every f32 value is rounded to f32 when it is made
};

/// Evaluates a function (a func.func or a dt.kernel) on whole tensors. Fails with an error on the operation that has no
/// reference semantics, on a collective, or on the function when an argument does not fit.
FailureOr<HostTensors> interpret(FunctionOpInterface function, ArrayRef<HostTensor> arguments,
                                 InterpreterOptions options = {});

/// Evaluates a function as one rank, without collectives: operations that depend on a piece's place in the whole see
/// `rank`.
FailureOr<HostTensors> interpret(FunctionOpInterface function, const RankContext &rank, ArrayRef<HostTensor> arguments);

/// Evaluates a function on all ranks of `mesh` in lock-step: arguments[rank] -> results[rank]. Collectives combine the
/// values of each group in the order of the ranks' indices within its axes.
FailureOr<SmallVector<HostTensors>> interpret(FunctionOpInterface function, MeshAttr mesh,
                                              ArrayRef<HostTensors> arguments, InterpreterOptions options = {});

} // namespace mlir::dt
