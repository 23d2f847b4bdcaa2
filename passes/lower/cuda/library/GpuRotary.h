// The rotary embedding on GPUs: dtc_rotary of runtime/abi/library/rotary.h as two functions of the program's code. The
// first makes a table of the positions' sines and cosines, which all heads and samples share; the second turns a pair
// of elements at a time. Angles are computed in f64, as on processors: f32 angles of large positions lose digits.
#pragma once

#include "passes/lower/kernels/LaunchShape.h"

#include "dialect/IR/Library.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <optional>

namespace dtc {

/// The kernel of a call of "rotary"; none, and why, where it is too large.
std::optional<LibraryKernel> gpuRotaryOf(const mlir::dt::LibraryCall &call, llvm::StringRef prefix, std::string &why);

/// Appends the functions to `module`.
void addGpuRotary(mlir::gpu::GPUModuleOp module);

} // namespace dtc
