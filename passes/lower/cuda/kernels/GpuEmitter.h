// The functions of a kernel for GPUs.
#pragma once

#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dtc {

/// Appends the functions of `kernel` to `module`, one for each of the shape's passes; GpuFunction.h says how they are
/// called.
llvm::SmallVector<mlir::gpu::GPUFuncOp> emitGpuKernel(mlir::dt::KernelOp kernel, const KernelPlan &plan,
                                                      const GpuShape &shape, mlir::gpu::GPUModuleOp module);

} // namespace dtc
