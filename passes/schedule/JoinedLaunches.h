// Launches of one elementwise formula on tensors that continue each other in memory: one command does them all.
//
// An optimizer's formula is launched for every parameter. Parameters that decay lie side by side, as do those that do
// not, and what belongs to them in the same order (MemoryPlan.h): a few commands update a whole model.
#pragma once

#include "passes/lower/Kernels.h"
#include "passes/schedule/ArenaLayout.h"

namespace dtc {

class JoinedLaunches {
public:
  /// Of a function in Form 5. All references outlive this.
  JoinedLaunches(mlir::func::FuncOp function, ArenaLayout &arena, Kernels &kernels);

  /// The launches that are done where `launch` stands, in the order of memory: it alone, or it and later ones. None
  /// where an earlier one does it.
  llvm::ArrayRef<mlir::dt::LaunchOp> at(mlir::dt::LaunchOp launch) const;

private:
  using Range = std::pair<uint64_t, uint64_t>;
  struct Group {
    unsigned formula; ///< 0: not elementwise
    llvm::SmallVector<mlir::dt::LaunchOp> launches;
    llvm::SmallVector<Range> read, written;
  };

  void visit(mlir::dt::LaunchOp launch);
  unsigned formulaOf(mlir::dt::LaunchOp launch);
  bool continues(const Group &group, mlir::dt::LaunchOp launch) const;
  bool isInTheWay(const Group &between, const Group &launch) const;
  Range rangeOf(mlir::Value value) const;

  mlir::func::FuncOp function;
  ArenaLayout &arena;
  Kernels &kernels;
  llvm::StringMap<unsigned> formulaOfKernel, formulas;
  llvm::SmallVector<Group> open; ///< since the last operation that is no launch
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::dt::LaunchOp>> groups; ///< by their first
};

} // namespace dtc
