// The passes of *how*.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dtc {

#define GEN_PASS_DECL
#include "passes/lower/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"

} // namespace dtc
