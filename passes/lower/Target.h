// What kernels run on. A target owns its limits on fusion, its launch shapes, its library of kernels and the emitter of
// generated ones; the phases before "how" know nothing about it, and "how" and "when" know no target by name: they ask
// this interface (Targets.h finds it). To add a target, implement it and list it in Targets.cpp.
#pragma once

#include "passes/lower/TargetCode.h"
#include "passes/lower/kernels/KernelPlan.h"
#include "passes/lower/kernels/LaunchShape.h"

#include "dialect/IR/Library.h"

#include <future>
#include <optional>
#include <string>

namespace dtc {

class Target {
public:
  virtual ~Target() = default;

  /// What the manifest calls it, and what a machine must have.
  virtual llvm::StringRef getName() const = 0;
  virtual llvm::ArrayRef<std::string> getFeatures() const = 0;

  /// Streams of memory that one kernel may read and write.
  virtual size_t getMaxBuffers() const = 0;

  /// The alignment, in bytes, at which tensors with a place of their own begin, and the least alignment of what a
  /// generated kernel reads or writes, which a part of another tensor may lack (see dt-explicit-copies).
  virtual uint64_t getPlaceAlignment() const = 0;
  virtual uint64_t getBufferAlignment() const = 0;

  virtual LaunchShape getLaunchShape(const KernelPlan &plan) const = 0;

  /// The prefix of the symbols of its library's kernels.
  virtual llvm::StringRef getLibraryPrefix() const = 0;
  /// The symbol of its library's kernel of that name ("gemm", see LibraryCall); nothing where there is none.
  std::optional<std::string> findLibraryKernel(llvm::StringRef name) const;

  /// Whether calls of its library's kernels may work in memory of their own (LibraryKernel::scratchBytes).
  virtual bool libraryTakesScratch() const { return false; }

  /// Whether its library has products with epilogues: kernel "product" for some calls of dt.product.
  virtual bool hasEpilogues() const { return false; }

  /// The kernel for a call. Nothing where there is none, with the reason in `why` if it is anything other than the
  /// name.
  virtual std::optional<LibraryKernel> findLibraryKernel(const mlir::dt::LibraryCall &call, std::string &why) const;

  /// Whether parameters are kept in 16 bits, too, where products compute in them (dt-keep-copies): 2 bytes of memory
  /// per parameter for 6 bytes less traffic in each micro-batch.
  virtual bool keepsCopies() const { return false; }

  /// Emits the code of generated kernels, and of the library kernels that the calls of their module need; see
  /// startCompilingKernels.
  virtual llvm::FailureOr<std::future<TargetCode>> startCompiling(llvm::ArrayRef<mlir::dt::KernelOp> kernels) const = 0;
};

} // namespace dtc
