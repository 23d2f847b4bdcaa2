// How a kernel is called.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/lower/kernels/LaunchShape.h"

namespace dtc {

/// How a kernel's function is called. Buffers are the kernel's arguments, then its results; all are dense. A mask
/// at a kernel's border is stored as i32 0 or 1.
struct KernelInterface {
  unsigned numInputs = 0, numOutputs = 0;
  llvm::SmallVector<mlir::dt::LaunchScalar> scalars;
  int64_t grid = 1;  ///< the function does [begin, end) of [0, grid)
  int64_t grain = 1; ///< threads should cut at multiples of it: enough work, and whole cache lines
  llvm::SmallVector<LaunchPass, 2> passes; ///< on GPUs
  int64_t scratchBytes = 0;                ///< see LaunchShape
  /// For each output the inputs whose buffer it may take over: each of their elements is read for the last time when
  /// the same element of the output is written.
  llvm::SmallVector<llvm::SmallVector<unsigned>> inPlace;
};

/// The interface of a kernel, for the target that its module names. Emits an error on the kernel when no code can be
/// generated for it.
llvm::FailureOr<KernelInterface> describe(mlir::dt::KernelOp kernel);

} // namespace dtc
