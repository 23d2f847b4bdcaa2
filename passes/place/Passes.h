// Where: which device holds which piece of each value. See Passes.td.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Pass/Pass.h"

namespace dtc {

#define GEN_PASS_DECL
#include "passes/place/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/place/Passes.h.inc"

} // namespace dtc
