// From one module of GPU kernels to the sections of a program file: NVIDIA-specific code begins here.
#pragma once

#include "passes/lower/TargetCode.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <future>

namespace dtc {

/// Sections for each architecture: "ptx.sm_90", which the driver of this and any later one assembles, and "cubin.sm_90"
/// where the toolkit's ptxas is found. The module, within a module of its own, is consumed at once; LLVM's and ptxas's
/// share of the work is left to a thread. Emits an error where the module cannot be lowered.
///
/// It is alone in its file, because tests replace it to run the same module on a machine without a GPU.
llvm::FailureOr<std::future<TargetCode>> startMakingSections(mlir::gpu::GPUModuleOp module,
                                                             llvm::ArrayRef<std::string> architectures);

} // namespace dtc
