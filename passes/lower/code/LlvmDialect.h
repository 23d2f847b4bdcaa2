// From the dialects of generated kernels to LLVM's.
#pragma once

#include "mlir/Pass/PassManager.h"

namespace dtc {

/// Converts scf, vector, math (what MathExpansion.h left of it) and arith to the llvm dialect.
void buildLlvmDialectPipeline(mlir::OpPassManager &manager);

} // namespace dtc
