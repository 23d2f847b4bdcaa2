// GPU kernels as code of this machine: the work of one thread, with a call wherever it meets other threads or memory.
#pragma once

#include "test/gpu/machine.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <memory>
#include <string>

namespace dtc::test {

/// The code in LLVM's form: a ThreadFunction for each kernel, and Hooks under HooksSymbol, to be set before a kernel
/// runs.
struct ThreadCode {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code; ///< null where the kernels do not lower
};

/// The module of emitGpuKernels, within a module of its own; both are consumed.
ThreadCode lowerToThreads(mlir::gpu::GPUModuleOp module);

class GpuCodeOfThisMachine {
public:
  /// As lowerToThreads.
  GpuCodeOfThisMachine(mlir::gpu::GPUModuleOp module, const Hooks &hooks);

  ThreadFunction find(const std::string &name) const; ///< null where there is none
  std::string error;                                  ///< empty: all is well

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace dtc::test
