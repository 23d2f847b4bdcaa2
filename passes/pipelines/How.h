// The phase "how": with which memory and code?
#pragma once

#include "mlir/Pass/PassManager.h"

namespace dtc {

/// Appends the phase's passes: afterwards every operation is a launch, a library call, a view, a collective or a wait,
/// and the module is ready to be ordered and for compileKernels.
void buildHowPipeline(mlir::OpPassManager &manager);
/// The same without the verifier that closes the phase.
void buildHowPasses(mlir::OpPassManager &manager);

/// Registers the phase's passes and "dt-how", the whole phase.
void registerHow();

} // namespace dtc
