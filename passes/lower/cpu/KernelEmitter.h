// The loops of a kernel.
#pragma once

#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc {

/// The number of columns that one grid index of a Columns kernel computes.
inline constexpr int64_t columnBlock = 128;

/// Appends to `module` the function of `kernel`, a dtc_kernel_fn of the kernel's name, in the dialects llvm, scf,
/// arith, math and vector, for vectors of `lanes` elements.
mlir::LLVM::LLVMFuncOp emitKernel(mlir::dt::KernelOp kernel, const KernelPlan &plan, mlir::ModuleOp module,
                                  unsigned lanes);

} // namespace dtc
