// Accumulators of a kernel's reductions: vectors of partial results, and the scalars or vectors that they end as.
#pragma once

#include "dialect/IR/Reductions.h"
#include "passes/lower/kernels/KernelValues.h"

namespace dtc {

/// The accumulator of one reduction: a vector on the stack, which LLVM keeps in registers.
struct Accumulator {
  mlir::Value operand, result; ///< of the reduction
  Span span;                   ///< of its result
  const mlir::dt::Reduction *reduction;
  mlir::Type element; ///< of the accumulator
  mlir::Value memory;
  mlir::Value poison; ///< for maxima of f32: zero, or a NaN that was met; the maxima themselves ignore NaN

  bool isWide() const { return element.isF64(); }
};

class Accumulators {
public:
  /// `entry` is the kernel's first block, where their memory is reserved. `plan` and `values` outlive this.
  Accumulators(const KernelPlan &plan, mlir::Block *entry, KernelValues &values)
      : plan(plan), entry(entry), values(values) {}

  /// Makes an accumulator of some vectors, on the stack of the whole call, and sets it to the identity here. `wide`:
  /// f32 is summed up in f64.
  Accumulator make(CodeBuilder &builder, mlir::dt::ReductionOpInterface reduce, bool wide, int64_t vectors = 1);

  /// Combines vectors into the accumulator at `offset` elements from its first. Terms of a sum are added up in their
  /// own type before, by a tree.
  void accumulate(CodeBuilder &builder, const Accumulator &accumulator, llvm::SmallVector<mlir::Value> terms,
                  mlir::Value offset);
  /// Combines vectors of a reduction's operand; lanes that do not exist count as the identity.
  void accumulate(llvm::MutableArrayRef<ColumnContext> contexts, const Accumulator &accumulator);

  /// The accumulated vector at `offset`.
  mlir::Value total(CodeBuilder &builder, const Accumulator &accumulator, mlir::Value offset);
  /// The scalar that an accumulator's lanes combine to.
  mlir::Value finish(CodeBuilder &builder, const Accumulator &accumulator);
  /// A total in the type that the kernel computes with.
  mlir::Value narrow(CodeBuilder &builder, const Accumulator &accumulator, mlir::Value value);

private:
  mlir::Value makeAccumulatorMemory(CodeBuilder &builder, mlir::Value initial, int64_t vectors);
  mlir::Value identity(CodeBuilder &builder, const Accumulator &accumulator, mlir::Type element);
  mlir::Value combine(CodeBuilder &builder, const Accumulator &accumulator, mlir::Value a, mlir::Value b);
  void recordNan(CodeBuilder &builder, const Accumulator &accumulator, llvm::ArrayRef<mlir::Value> terms,
                 mlir::Value offset);
  mlir::Value elementOf(CodeBuilder &builder, const Accumulator &accumulator, mlir::Value memory, mlir::Value offset);

  const KernelPlan &plan;
  mlir::Block *entry;
  KernelValues &values;
};

} // namespace dtc
