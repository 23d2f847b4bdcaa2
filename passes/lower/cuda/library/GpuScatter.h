// Sums into rows of a table, as the gradient of an embedding is: dtc_scatter_add of
// runtime/abi/library/scatter_add.h as three functions of the program's code.
//
// The first two sort what the updates belong to by its row, stably: by the lower half of the row's digits, then by the
// upper. A block has one value of the digits; it counts in all indices what goes before it, then writes its own in
// their order. The third has a block for each position and 512 columns of the row that begins there; it adds what
// follows in the order of indices. No atomic operations, and the result of a processor, to the bit.
#pragma once

#include "passes/lower/kernels/LaunchShape.h"

#include "dialect/IR/Library.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// The kernel of a call of "scatter_add".
LibraryKernel gpuScatterOf(const mlir::dt::LibraryCall &call, llvm::StringRef prefix);

/// Appends the functions to `module`.
void addGpuScatter(mlir::gpu::GPUModuleOp module);

} // namespace dtc
