// Emission of all kernels.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/kernels/GpuEmitter.h"
#include "passes/lower/kernels/EqualFunctions.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

void dtc::loadGpuDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, gpu::GPUDialect, LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
                      scf::SCFDialect, vector::VectorDialect>();
}

FailureOr<llvm::StringMap<std::string>> dtc::emitGpuKernels(ArrayRef<dt::KernelOp> kernels, gpu::GPUModuleOp module) {
  llvm::StringMap<std::string> shared;
  EqualFunctions equal;
  for (dt::KernelOp kernel : kernels) {
    FailureOr<KernelPlan> plan = planKernel(kernel);
    if (failed(plan))
      return failure();
    for (gpu::GPUFuncOp function : emitGpuKernel(kernel, *plan, gpuShapeOf(*plan), module)) {
      expandExponentials(function);
      if (Operation *same = equal.findOrAdd(function)) {
        shared[function.getName()] = cast<gpu::GPUFuncOp>(same).getName().str();
        function.erase();
      }
    }
  }
  return shared;
}
