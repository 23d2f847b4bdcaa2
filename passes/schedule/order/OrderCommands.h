// The pass dt-order-commands, with rules that have been read.
#pragma once

#include "mlir/Pass/Pass.h"
#include "passes/choices/Choices.h"

namespace dtc {

std::unique_ptr<mlir::Pass> createOrderCommands(std::vector<OrderRule> rules);

} // namespace dtc
