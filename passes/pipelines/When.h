// The phase "when": in which order?
#pragma once

#include "mlir/Pass/PassManager.h"

namespace dtc {

/// Appends the phase's passes: every collective is split into a start and a wait. The order is the simple correct one.
void buildWhenPipeline(mlir::OpPassManager &manager);

/// Registers the phase's passes and "dt-when", the whole phase.
void registerWhen();

} // namespace dtc
