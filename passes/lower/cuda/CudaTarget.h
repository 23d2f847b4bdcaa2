// NVIDIA's GPUs as a target.
#pragma once

#include "passes/lower/Target.h"

#include <memory>

namespace dtc {

class CudaTarget final : public Target {
public:
  static constexpr llvm::StringLiteral prefix = "cuda:";

  /// "cuda:sm_90", or for several architectures "cuda:sm_80,sm_90". Null, with the reason in `why`, for others.
  static std::unique_ptr<CudaTarget> find(llvm::StringRef name, std::string &why);

  llvm::StringRef getName() const override { return name; }
  llvm::ArrayRef<std::string> getFeatures() const override { return architectures; }
  size_t getMaxBuffers() const override { return 20; }        // there are registers for a vector of each
  uint64_t getPlaceAlignment() const override { return 256; } // like memory from the driver: whole lines, and more
  uint64_t getBufferAlignment() const override;
  LaunchShape getLaunchShape(const KernelPlan &plan) const override;
  llvm::StringRef getLibraryPrefix() const override { return "dtc_cuda_"; }
  bool libraryTakesScratch() const override { return true; }
  bool hasEpilogues() const override { return true; }
  bool keepsCopies() const override { return true; }
  using Target::findLibraryKernel;
  std::optional<LibraryKernel> findLibraryKernel(const mlir::dt::LibraryCall &call, std::string &why) const override;

  /// Sections as from startMakingSections (GpuSections.h).
  llvm::FailureOr<std::future<TargetCode>> startCompiling(llvm::ArrayRef<mlir::dt::KernelOp> kernels) const override;

private:
  std::string name;
  std::vector<std::string> architectures;
};

} // namespace dtc
