// Compiles kernels for GPUs, runs them on the machine of machine.h and compares them with the reference interpreter.
#pragma once

#include "test/gpu/lowering.h"

#include "dialect/IR/Ops.h"
#include "dialect/reference/HostTensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>

namespace dtc::test {

class GpuKernels {
public:
  /// Changes the generated code before it is compiled: a mistake to be noticed.
  using Change = std::function<void(mlir::gpu::GPUModuleOp)>;

  explicit GpuKernels(mlir::ModuleOp module, const Change &change = nullptr);

  /// Expects the kernel to compute what the interpreter does, |a - b| <= tolerance * max(1, |b|), without a fault, and
  /// the same whatever the order of threads and blocks, alone and in place.
  void expectMatch(mlir::dt::KernelOp kernel, double tolerance);

  /// The first fault or difference; empty where there is none.
  std::string findFault(mlir::dt::KernelOp kernel, double tolerance);

  bool rounds = false; ///< the interpreter rounds each result to its type; else it computes in f64

private:
  using Bytes = std::vector<std::byte>;
  /// Output o lies on input inPlace[o] where that is not negative. Says in `fault` what went wrong.
  std::vector<Bytes> run(mlir::dt::KernelOp kernel, llvm::ArrayRef<int> inPlace, std::string &fault);
  std::string compare(mlir::dt::KernelOp kernel, const std::vector<Bytes> &outputs, double tolerance);

  GpuMachine machine;
  std::unique_ptr<GpuCodeOfThisMachine> code;
  llvm::StringMap<std::string> shared;
};

} // namespace dtc::test
