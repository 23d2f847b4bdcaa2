// The forward pass of a layer, as a problem of what to keep of it.
#pragma once

#include "passes/keep/recompute/KeepProblem.h"
#include "passes/pipelines/search/CommandSeconds.h"

namespace dtc {

/// Of the layer in the middle of those of the class `list`, in a module as *keep* has it before anything is made again.
/// What the layer takes and what it hands to others is there anyway. An operation in a kernel takes what reading stored
/// tensors and writing its own takes, if it is stored; else nothing. What is gathered of parameters cannot be kept:
/// with `sharesGathers` it is there anyway. Empty where no function has both passes of such a layer. Emits an error on
/// an operation whose work nobody knows.
mlir::FailureOr<KeepProblem> layerProblem(mlir::ModuleOp module, llvm::StringRef list, const CommandSeconds &costs,
                                          bool sharesGathers);

} // namespace dtc
