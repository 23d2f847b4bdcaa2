// From GPU kernels to PTX, the assembly of NVIDIA's GPUs, in this process: LLVM's NVPTX backend needs no CUDA toolkit.
#pragma once

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace dtc {

/// What LLVM compiles: code in a context of its own, so that another thread may do it.
struct GpuCode {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code;
};

/// A module of emitGpuKernels, within a module of its own, in LLVM's form; both are consumed. Emits an error where it
/// cannot be lowered.
llvm::FailureOr<GpuCode> lowerToNvvm(mlir::gpu::GPUModuleOp module);

/// PTX for an architecture such as "sm_90"; empty, with the reason in `error`, where LLVM does not know it. Leaves the
/// code as it is.
std::string makePtx(const GpuCode &code, const std::string &architecture, std::string &error);

} // namespace dtc
