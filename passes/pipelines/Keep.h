// The phase "keep": what lives from forward to backward?
#pragma once

#include "mlir/Pass/PassManager.h"

namespace dtc {

/// Appends the phase's passes: takes a module of local shapes and leaves in it what is kept and what is made again.
void buildKeepPipeline(mlir::OpPassManager &manager);

/// Registers the phase's passes and "dt-keep", the whole phase.
void registerKeep();

} // namespace dtc
