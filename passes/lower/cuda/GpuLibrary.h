// Library kernels that are code of the program, as generated ones are; library.mlir has them.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// Appends the functions of library.mlir to `module`.
void addGpuLibrary(mlir::gpu::GPUModuleOp module);

} // namespace dtc
