// The forward pass of a layer, as a problem of what to keep.
#pragma once

#include "passes/keep/recompute/KeepProblem.h"
#include "passes/pipelines/search/CommandSeconds.h"

namespace dtc {

/// The problem of the middle layer of the class `list`, in a module as *keep* has it before anything is recomputed.
/// What the layer takes and what it hands to others is there anyway. An operation in a kernel takes as long as reading
/// stored tensors and writing its own, if that is stored; otherwise no time. Gathered parameters cannot be kept: with
/// `sharesGathers` they are there anyway. Empty if no function has both passes of such a layer. Emits an error on an
/// operation whose work is unknown.
mlir::FailureOr<KeepProblem> layerProblem(mlir::ModuleOp module, llvm::StringRef list, const CommandSeconds &costs,
                                          bool sharesGathers);

} // namespace dtc
