// Passes of the phase "what": one training step of a model, over logical tensors.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dtc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/differentiate/Passes.h.inc"

} // namespace dtc
