// What locations tell people. Nothing here changes what a program computes: two operations that differ only in their
// locations are equal to every pass.
#pragma once

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace dtc {

/// The place in the model, "h.0.ln_1", or in a file, "model.mlir:12"; empty where it is unknown.
std::string placeOf(mlir::Location loc);

/// What an operation is for: the name of the composite or optimizer whose formula it belongs to, with "_backward" for
/// its gradient; else its own name: "layer_norm_backward", "adamw", "add".
mlir::StringRef purposeOf(mlir::Operation *op);

/// `loc` with a purpose; a purpose that it already has stays.
mlir::Location withPurpose(mlir::Location loc, mlir::StringRef purpose);

/// The location of what is recomputed for the backward pass, since it was not kept: the same place and purpose.
mlir::Location madeAgain(mlir::Location loc);
bool isMadeAgain(mlir::Location loc);
/// The location as it was before madeAgain.
mlir::Location madeOnce(mlir::Location loc);

} // namespace dtc
