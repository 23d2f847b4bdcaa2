// What the skeletons of GpuShape.h share.
#pragma once

#include "passes/lower/cuda/kernels/GpuFunction.h"

namespace dtc {

class GpuLoops {
public:
  /// For function number `pass` of a kernel.
  GpuLoops(GpuFunction &function, size_t pass)
      : function(function), plan(function.plan), shape(function.shape), pass(pass) {}

protected:
  using Contexts = llvm::MutableArrayRef<ColumnContext>;

  bool storesIn(unsigned output, unsigned sweep) const {
    return plan.hasColumns(plan.outputSpans[output]) && plan.outputSweep[output] == sweep;
  }
  llvm::SmallVector<GpuReduction> reductionsOf(unsigned sweep) const;
  /// The indices of a row, or of a result of reductions over more.
  llvm::SmallVector<mlir::Value> keptIndex(CodeBuilder &builder, mlir::Value number);

  /// The outputs of a sweep that have columns. Everything is computed, and so read, before anything is written: an
  /// output may share an input's memory. Where `exist` is null the vector exists; otherwise the contexts are where
  /// their row is.
  void storeOutputs(KernelValues &values, Contexts contexts, llvm::ArrayRef<mlir::Value> exist, unsigned sweep);
  /// The outputs without columns, where `isOne` holds: in one of the threads that have them.
  void storeScalars(RowContext &row, mlir::Value isOne);

  GpuFunction &function;
  const KernelPlan &plan;
  const GpuShape &shape;
  const size_t pass;
};

void emitGpuRows(GpuFunction &function, size_t pass);

/// The skeletons whose sums are formed by several blocks.
void emitGpuLinear(GpuFunction &function, size_t pass);
void emitGpuColumns(GpuFunction &function, size_t pass);

} // namespace dtc
