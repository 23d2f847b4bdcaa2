// How long what a pass keeps for a later one of its stage stays there, where backward passes are split:
//
//   stash           from the forward pass to the input gradients, which alone read it
//   weight_stash    from the forward pass to the weight gradients; the input gradients may read it, too
//   gradient_stash  from the input gradients to the weight gradients
//
// Where backward passes are whole, all of it is a `stash`.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// Gives each stash of the module's functions its kind. Before, all are a `stash`. Functions of all micro-batches
/// decide together: those of several may be the passes of one micro-batch.
void setStashKinds(mlir::ModuleOp module);

} // namespace dtc
