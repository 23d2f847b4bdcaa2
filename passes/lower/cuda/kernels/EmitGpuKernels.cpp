// Appends a gpu.module with the functions of all kernels; see Passes.td.
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace dtc {
#define GEN_PASS_DEF_EMITGPUKERNELS
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;

namespace {

struct EmitGpuKernels : dtc::impl::EmitGpuKernelsBase<EmitGpuKernels> {
  void runOnOperation() override {
    SmallVector<dt::KernelOp> kernels(getOperation().getOps<dt::KernelOp>());
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto module = gpu::GPUModuleOp::create(builder, getOperation().getLoc(), "kernels");
    if (failed(dtc::emitGpuKernels(kernels, module)))
      signalPassFailure();
  }
};

} // namespace
