// Gives the values of one function homes: named tensors or temporaries with lifetimes.
#pragma once

#include "passes/lower/Kernels.h"
#include "passes/schedule/MemoryPlan.h"

namespace dtc {

/// When the values of a function are read, by position of the reading operation. Only values with buffers of their own
/// ("roots") count; a view's reads are its root's.
class Reads {
public:
  Reads(mlir::func::FuncOp function, Layouts &layouts);
  int positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// Position of the last read, or -1.
  int lastRead(mlir::Value root) const;

private:
  llvm::DenseMap<mlir::Operation *, int> positions;
  llvm::DenseMap<mlir::Value, int> last;
};

/// Whether the argument's contents are still needed when, or after, `result` is written over them.
bool readsOldContents(mlir::BlockArgument argument, mlir::OpResult result, const Reads &reads, Layouts &layouts,
                      Kernels &kernels);

class FunctionPlanner {
public:
  FunctionPlanner(MemoryPlan &plan, mlir::func::FuncOp function, Kernels &kernels);
  mlir::LogicalResult run();

private:
  void bindArguments();
  void bindResults();
  void bindResult(mlir::Value root, int tensor);
  void takeOverGradient(mlir::OpResult result, int tensor);
  void bindSource(mlir::Operation *op, unsigned result, int tensor);
  bool mayOverwrite(mlir::OpResult result, int tensor);
  mlir::LogicalResult assign(mlir::Operation *op);
  MemoryPlan::Home chooseHome(mlir::Operation *op, unsigned result);
  bool canTakeOver(mlir::Operation *op, mlir::Value operand, uint64_t bytes, llvm::ArrayRef<unsigned> aligned);
  MemoryPlan::Home newTemporary(mlir::Value value, int position);
  void markShared(mlir::Value value);
  void keepUntil(mlir::Value value, int position);

  MemoryPlan &plan;
  mlir::func::FuncOp function;
  Kernels &kernels;
  Layouts &layouts;
  Reads reads;
  llvm::DenseMap<int, mlir::BlockArgument> argumentOf; ///< named tensor -> the argument that it comes in as
  llvm::DenseMap<mlir::Value, int> boundTo;            ///< root value -> the named tensor it is returned as
  llvm::SmallDenseSet<MemoryPlan::Home, 4> taken;      ///< homes that results of the current operation have taken
};

} // namespace dtc
