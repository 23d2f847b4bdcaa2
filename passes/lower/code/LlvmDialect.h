// From the dialects of generated kernels to LLVM's.
#pragma once

#include "mlir/Pass/PassManager.h"

namespace dtc {

/// scf, vector, math (what MathExpansion.h has left of it) and arith become the llvm dialect.
void buildLlvmDialectPipeline(mlir::OpPassManager &manager);

} // namespace dtc
