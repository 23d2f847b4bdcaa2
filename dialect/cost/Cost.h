// Work of whole functions, summed over the cost interface.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::dt {

/// The work of one operation as it stands in a list of commands: a library call, a copy, a collective. Fails, naming
/// the operation, when it lacks CostOpInterface.
FailureOr<Work> workOf(Operation *op);

/// The work of one call of a generated kernel: what its operations compute, the arguments that they read and the
/// results, once each.
FailureOr<Work> workOf(KernelOp kernel);

/// Floating-point operations of one call on one rank: the sum of CostOpInterface::getFlops. Fails, naming the
/// operation, when one lacks the interface.
FailureOr<double> countFlops(func::FuncOp function);

/// Model flops of forward and backward of a loss function, for model FLOP utilisation as Chowdhery et al. define it
/// (PaLM, arXiv:2204.02311, appendix B): three times the forward work of the operations that library kernels serve
/// (contractions and attention; attention counts every pair, masked or not). Recomputation, norms and elementwise work
/// do not count.
FailureOr<double> countModelFlops(func::FuncOp loss);

} // namespace mlir::dt
