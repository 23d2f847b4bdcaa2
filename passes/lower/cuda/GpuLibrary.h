// Library kernels that are code of the program, as generated ones are; library.mlir has them.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <algorithm>

namespace dtc {

/// Threads of a block of theirs; of any number of blocks each takes its share of what the grid says is to be done.
constexpr int32_t libraryThreads = 256;

/// How many blocks a launch has for so many things to do, one a thread: threads take what is beyond these in turn.
constexpr int64_t libraryBlocks(int64_t count) {
  constexpr int64_t most = 1 << 16;
  return std::clamp<int64_t>((count + libraryThreads - 1) / libraryThreads, 1, most);
}

/// Appends the functions of library.mlir, and those that follow, to `module`.
void addGpuLibrary(mlir::gpu::GPUModuleOp module);

/// dtc_cuda_product$..., one for each epilogue, without the product.
void addGpuEpilogues(mlir::gpu::GPUModuleOp module);

} // namespace dtc
