// Compiles kernels for GPUs, runs them on the machine of machine.h and compares them with their meaning, as for
// processors' code (tools/verify/KernelRun.h).
#pragma once

#include "test/gpu/lowering.h"
#include "tools/verify/KernelRun.h"

#include "dialect/IR/Ops.h"
#include "passes/lower/kernels/KernelInterface.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>

namespace dtc::test {

class GpuKernels {
public:
  /// Changes the generated code before it is compiled: a mistake that must be noticed.
  using Change = std::function<void(mlir::gpu::GPUModuleOp)>;

  explicit GpuKernels(mlir::ModuleOp module, const Change &change = nullptr);

  /// One run, on the last rank of the module's mesh. `sites` are the launch's; none: those of the kernel's draws.
  verify::CodeResult run(mlir::dt::KernelOp kernel, std::vector<int> inPlace, unsigned draw, bool backwards = false,
                         llvm::ArrayRef<int64_t> sites = {});

  /// Expects the kernel to store what it means and nothing else, without a fault, and the same bits for any order of
  /// threads and blocks, alone and in place.
  void expectMatch(mlir::dt::KernelOp kernel);

  /// The first fault or difference; empty where there is none.
  std::string findFault(mlir::dt::KernelOp kernel);

  int64_t compared = 0, unbounded = 0; ///< elements, in all runs

private:
  std::string launch(mlir::dt::KernelOp kernel, const KernelInterface &interface, const std::vector<void *> &addresses,
                     const mlir::dt::RankContext &rank);
  std::vector<DeviceBuffer> buffersOf(mlir::dt::KernelOp kernel, const std::vector<void *> &addresses) const;

  GpuMachine machine;
  std::unique_ptr<GpuCodeOfThisMachine> code;
  llvm::StringMap<std::string> shared;
};

} // namespace dtc::test
