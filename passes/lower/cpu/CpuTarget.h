// A processor as a target.
#pragma once

#include "passes/lower/Target.h"
#include "passes/lower/cpu/NativeCode.h"

namespace dtc {

class CpuTarget final : public Target {
public:
  explicit CpuTarget(CodeTarget processor) : processor(std::move(processor)) {}

  llvm::StringRef getName() const override { return processor.cpu; }
  llvm::ArrayRef<std::string> getFeatures() const override { return processor.features; }
  size_t getMaxBuffers() const override { return 20; }
  uint64_t getPlaceAlignment() const override { return 64; } // whole cache lines, so that no two tensors share one
  uint64_t getBufferAlignment() const override { return 1; } // vectors may begin anywhere
  LaunchShape getLaunchShape(const KernelPlan &plan) const override;
  llvm::StringRef getLibraryPrefix() const override { return "dtc_"; }
  llvm::FailureOr<std::future<TargetCode>> startCompiling(llvm::ArrayRef<mlir::dt::KernelOp> kernels) const override {
    return startCompilingKernels(kernels, processor);
  }

private:
  CodeTarget processor;
};

} // namespace dtc
