// The code of kernels for GPUs in one module, before anything vendor-specific.
#pragma once

#include "dialect/IR/Ops.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringMap.h"

namespace dtc {

/// An attribute of functions: how many of their blocks a multiprocessor should hold at least. Without it, enough for
/// kernels that wait for memory; functions that compute, and keep much in registers, ask for fewer.
constexpr llvm::StringLiteral blocksAtOnce = "dtc.blocks_at_once";

/// Calls that stand for what matrix units do with fragments (GpuMmaTiles.cpp): a's four words, b's two, c's four f32;
/// the result is the four f32 of a b + c. They are vendor-neutral: lowering replaces them.
constexpr llvm::StringLiteral gpuMmaOfBf16 = "llvm.dtc.mma.bf16", gpuMmaOfF16 = "llvm.dtc.mma.f16";
/// Loads four matrices of 8 x 8 elements of 16 bits from workgroup memory, as fragments. Each thread gives the address
/// of a row of 16 bytes, the first eight threads those of the first matrix, and gets a word of each matrix; the
/// transposed form takes rows for columns.
constexpr llvm::StringLiteral gpuLoadMatrices = "llvm.dtc.load_matrices";
constexpr llvm::StringLiteral gpuLoadTransposedMatrices = "llvm.dtc.load_matrices.transposed";
/// Begins to copy 16 bytes to workgroup memory from a buffer, both at multiples of 16. They are there for the thread
/// once it has waited for all copies it has begun, and for others after a barrier following that.
constexpr llvm::StringLiteral gpuBeginCopy = "llvm.dtc.begin_copy", gpuWaitForCopies = "llvm.dtc.wait_for_copies";
/// Likewise 2 to the power of an f32, as exact as a GPU's own instruction: a relative error of 2^-22, with subnormals
/// as zero.
constexpr llvm::StringLiteral gpuPowerOfTwo = "llvm.dtc.power_of_two";

/// Loads the dialects that the code is in.
void loadGpuDialects(mlir::MLIRContext &context);

/// Replaces math.exp on f32 by the instruction for powers of two and seven more:
/// relative error 2^-21. The polynomial of MathExpansion.h takes eighteen.
void expandExponentials(mlir::gpu::GPUFuncOp function);

/// Appends every kernel's functions to `module` under the names of passFunction, equal ones once: returns the others'
/// names with the names that they share. Emits an error on a kernel for which there is no code.
llvm::FailureOr<llvm::StringMap<std::string>> emitGpuKernels(llvm::ArrayRef<mlir::dt::KernelOp> kernels,
                                                             mlir::gpu::GPUModuleOp module);

} // namespace dtc
