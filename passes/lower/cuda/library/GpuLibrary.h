// Library kernels that are code of the program, as generated ones are; library.mlir has them.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// Appends the functions of library.mlir, and those that follow, to `module`.
void addGpuLibrary(mlir::gpu::GPUModuleOp module);

/// dtc_cuda_product$..., one for each epilogue, without the product.
void addGpuEpilogues(mlir::gpu::GPUModuleOp module);

} // namespace dtc
