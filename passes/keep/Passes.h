// The passes of *keep*.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dtc {

#define GEN_PASS_DECL
#include "passes/keep/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/keep/Passes.h.inc"

} // namespace dtc
