// Launches of one elementwise formula on tensors that continue each other in memory, which become one command: the
// answer of JoinLaunches.h in terms of the IR.
#pragma once

#include "passes/lower/kernels/Kernels.h"
#include "passes/schedule/launches/JoinLaunches.h"
#include "passes/schedule/memory/ArenaLayout.h"

namespace dtc {

/// Numbers for the formulas of elementwise kernels. A kernel's formula is a text, which is made once.
class Formulas {
public:
  explicit Formulas(Kernels &kernels) : kernels(kernels) {}

  /// 0 if the kernel is not an elementwise formula.
  unsigned numberOf(mlir::dt::LaunchOp launch);

private:
  Kernels &kernels;
  llvm::DenseMap<mlir::Attribute, unsigned> ofKernel;
  llvm::StringMap<unsigned> numbers;
};

class JoinedLaunches {
public:
  /// For a function in Form 5. All references must outlive this object.
  JoinedLaunches(mlir::func::FuncOp function, ArenaLayout &arena, Formulas &formulas);

  /// The launches that run where `launch` is, in the order of memory: it alone, or it and later ones. None if an
  /// earlier launch includes it.
  llvm::ArrayRef<mlir::dt::LaunchOp> at(mlir::dt::LaunchOp launch) const;

private:
  void join(llvm::ArrayRef<mlir::dt::LaunchOp> launches, Formulas &formulas);
  std::vector<LaunchBuffer> buffersOf(mlir::dt::LaunchOp launch) const;

  mlir::func::FuncOp function;
  ArenaLayout &arena;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::dt::LaunchOp>> groups; ///< by their first
};

} // namespace dtc
