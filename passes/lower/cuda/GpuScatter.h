// Sums into rows of a table, as the gradient of an embedding is: dtc_scatter_add of runtime/kernels/kernels.h as two
// functions of the program's code.
//
// The first finds for every index the next one that names the same row, and whether one before does; that is all the
// order there is, so it needs no sorting and little memory. The second has a block for each first one and 256 columns,
// which goes along the chain and adds in the order of indices: no atomic operations, and the result of a processor, to
// the bit.
#pragma once

#include "passes/lower/LaunchShape.h"

#include "dialect/IR/Library.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// The kernel of a call of "scatter_add".
LibraryKernel gpuScatterOf(const mlir::dt::LibraryCall &call, llvm::StringRef prefix);

/// Appends the functions to `module`.
void addGpuScatter(mlir::gpu::GPUModuleOp module);

} // namespace dtc
