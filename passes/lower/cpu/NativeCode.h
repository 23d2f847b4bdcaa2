// From dt.kernel operations to a shared object for the target machine, all in this process.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/lower/TargetCode.h"

#include <future>
#include <string>
#include <vector>

namespace dtc {

/// The processor that code is generated for.
struct CodeTarget {
  std::string cpu;                   ///< LLVM's name for what the code may use: "x86-64-v3" or "x86-64-v4"
  std::string tune;                  ///< the processor that instructions are chosen and ordered for; empty: any
  std::vector<std::string> features; ///< LLVM feature names the code relies on ("avx512f"): for the manifest
  unsigned vectorBits = 256;         ///< 256 or 512

  unsigned lanes() const { return vectorBits / 32; }
};

/// The target of that name: "native" (this machine), "x86-64-v3" or "x86-64-v4". Fails, with the reason in `why`, for
/// other names and for machines below x86-64-v3.
llvm::FailureOr<CodeTarget> resolveTarget(llvm::StringRef name, std::string &why);

/// The code is one section, an ELF shared object that exports one dtc_kernel_fn for each kernel, under the kernel's
/// symbol name, and needs no other library. Kernels whose code is equal share one function.
///
/// Emits the kernels' loops and leaves the rest, most of the work, to threads of its own, which do not read the module
/// but use its context: wait for them before the context is destroyed. Emits an error on a kernel for which no code can
/// be generated.
llvm::FailureOr<std::future<TargetCode>> startCompilingKernels(llvm::ArrayRef<mlir::dt::KernelOp> kernels,
                                                               const CodeTarget &target);

/// The shared object, waited for; every failure is a diagnostic. Without kernels it is an empty string.
llvm::FailureOr<std::string> compileKernels(llvm::ArrayRef<mlir::dt::KernelOp> kernels, const CodeTarget &target);

} // namespace dtc
