// The kernels of a module and their interfaces, looked up once.
#pragma once

#include "passes/lower/kernels/KernelInterface.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace dtc {

class Kernels {
public:
  explicit Kernels(mlir::ModuleOp module) : symbols(module) {}

  /// Finds the interfaces of all kernels. Emits an error on the first one for which no code can be generated.
  mlir::LogicalResult describeAll();

  mlir::dt::KernelOp kernelOf(mlir::dt::LaunchOp launch) const {
    return symbols.lookup<mlir::dt::KernelOp>(launch.getKernelAttr().getAttr());
  }
  /// The interface of the kernel that `launch` calls; kernels have been checked to have one.
  const KernelInterface &interfaceOf(mlir::dt::LaunchOp launch);

  /// The work of one call of the kernel that `launch` calls, counted once for all its launches.
  llvm::FailureOr<mlir::dt::Work> workOf(mlir::dt::LaunchOp launch);

  /// The operands whose buffers result number `result` of `op` may take over, if they are not read afterwards.
  llvm::SmallVector<unsigned> inPlaceOperands(mlir::Operation *op, unsigned result);

private:
  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Operation *, KernelInterface> interfaces;
  llvm::DenseMap<mlir::Operation *, mlir::dt::Work> works;
};

} // namespace dtc
