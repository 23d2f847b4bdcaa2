// What one kernel can hold, and how it is called.
//
// All tensors of a kernel relate to one iteration domain, the shape of its tensors of highest rank. Each of its values
// spans a subset of the domain's dimensions: a bias [last], a mean [outer...], a scalar []. dt.broadcast adds
// dimensions and dt.reduce removes them; everything else keeps them (FusibleOpInterface says it). Neighbouring
// dimensions that every value treats alike are merged before code is generated, so [batch, sequence, embed] with a bias
// over embed runs as a matrix and a purely elementwise kernel as a vector.
//
// What is reduced decides how a kernel runs:
//
//   Flat      the merged domain has one dimension. Its size is a launch scalar, so that one function serves every
//             shape. Without reductions threads divide the elements; with them, one thread does the whole.
//   Rows      reductions, if any, are over the last merged dimension. Threads divide the rows (all other dimensions).
//             A row is swept several times where results of reductions are broadcast back into it (norms, softmax).
//   Columns   reductions are over other dimensions than the last, which is left ([R, C] -> [C]). Threads divide blocks
//             of columns. Only values without the reduced dimensions may follow the reduction and be outputs.
//   Total     reductions are over the last and further dimensions, but a merge is prevented ([R, C] -> [] with
//             operands over R or C alone). Threads divide what is left. Outputs as for Columns.
//
// Every dt.reduce alone is one of these. A kernel's reductions must all be over the same dimensions.
#pragma once

#include "passes/analysis/KernelOps.h"
#include "passes/lower/LaunchShape.h"

#include <string>

namespace dtc {

/// Whether one kernel can compute `ops` (in an order in which definitions precede uses) with `outputs`, results of
/// theirs, stored. Values defined elsewhere are its inputs. When it cannot, `why` receives the reason.
bool canShareKernel(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs,
                    std::string *why = nullptr);

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
