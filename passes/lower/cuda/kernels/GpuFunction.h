// One function of a GPU kernel under construction: its arguments, its threads' numbers, and what the threads of a block
// do together.
//
// The code is in the dialects gpu, scf, arith, math, vector, memref (workgroup memory) and llvm (buffers), and contains
// nothing vendor-specific.
//
// Arguments: the kernel's buffers (inputs, then outputs), the scratch buffer if the shape has one, then the launch
// scalars as i64. Buffers begin at multiples of GpuShape::bufferAlignment. None of the scalars changes from step to
// step (sizes, sites and places of ranks: see dt::LaunchScalar; what changes is in buffers), so a recorded launch stays
// valid.
#pragma once

#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/kernels/KernelValues.h"

#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <optional>

namespace dtc {

/// A reduction and how its terms are added up.
struct GpuReduction {
  GpuReduction(const KernelPlan &plan, mlir::dt::ReductionOpInterface op);

  mlir::Value operand, result;
  Span span; ///< of the result
  const mlir::dt::Reduction *kind;
  mlir::Type element; ///< of its terms
  mlir::Type partial; ///< of partial results of blocks: f64 for sums of f32
  unsigned number;    ///< its number among the kernel's

  /// Combines scalars or vectors; NaN if either is.
  mlir::Value combine(CodeBuilder &builder, mlir::Value a, mlir::Value b) const;
  /// Combines these values, in a tree.
  mlir::Value combine(CodeBuilder &builder, llvm::SmallVector<mlir::Value> values) const;
  /// Combines the lanes of a vector.
  mlir::Value combineLanes(CodeBuilder &builder, mlir::Value vector) const;
  mlir::Value identity(CodeBuilder &builder, mlir::Type type) const;
  /// From `element` to `partial` and back.
  mlir::Value widen(CodeBuilder &builder, mlir::Value value) const;
  mlir::Value narrow(CodeBuilder &builder, mlir::Value value) const;
};

/// A number divided by a size.
struct Division {
  mlir::Value quotient, remainder;
};

class GpuFunction {
  mlir::gpu::GPUFuncOp function;

public:
  GpuFunction(const KernelPlan &plan, const GpuShape &shape, const GpuPass &pass, llvm::StringRef name,
              mlir::gpu::GPUModuleOp module, mlir::Location loc);

  mlir::gpu::GPUFuncOp op() const { return function; }

  CodeBuilder builder;       ///< inserts before the return
  mlir::Value thread, block; ///< i64
  mlir::Value count;         ///< the number of a flat kernel's elements

  KernelValues &vectors() { return *wide; }
  KernelValues &singles() { return *single; } ///< vectors of one lane

  const KernelPlan &plan;
  const GpuShape &shape;
  const int64_t threads;

  /// Combines what the threads of a group of `size` neighbours hold; all of them get the result. Groups divide a warp
  /// or are the block; all threads of the block call it.
  mlir::Value combineThreads(CodeBuilder &builder, const GpuReduction &reduction, mlir::Value value, int64_t size);

  /// Memory that the block shares. Each call returns new memory.
  mlir::Value workgroupMemory(mlir::Type element, int64_t size);
  void storeShared(CodeBuilder &builder, mlir::Value value, mlir::Value memory, mlir::Value index);
  mlir::Value loadShared(CodeBuilder &builder, mlir::Value memory, mlir::Value index);
  void barrier(CodeBuilder &builder);

  /// The partial result `index` of a reduction that has `total` of them.
  mlir::Value partialAddress(CodeBuilder &builder, const GpuReduction &reduction, mlir::Value total, mlir::Value index);

  /// `number`, below `bound`, by `size`: in 32 bits where these suffice.
  Division divide(CodeBuilder &builder, mlir::Value number, int64_t size, int64_t bound);
  /// The indices along `dims` of element `number` of their row-major grid, in `index`.
  void decompose(CodeBuilder &builder, mlir::Value number, Span dims, llvm::SmallVectorImpl<mlir::Value> &index);

  mlir::Value less(CodeBuilder &builder, mlir::Value a, mlir::Value b);
  mlir::Value equal(CodeBuilder &builder, mlir::Value a, int64_t b);
  mlir::Value choose(CodeBuilder &builder, mlir::Value condition, mlir::Value a, mlir::Value b);

  using Body = llvm::function_ref<void(CodeBuilder &)>;
  void when(CodeBuilder &builder, mlir::Value condition, Body then, Body otherwise = nullptr);

  /// from, from + step, ... below `to`, passing values on. The body's builder inserts in the loop, and `builder` before
  /// it while the body is made, so that what does not vary is computed there.
  using LoopBody =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(CodeBuilder &, mlir::Value number, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> loop(CodeBuilder &builder, mlir::Value from, mlir::Value to, int64_t step,
                                      mlir::ValueRange initial, LoopBody body);
  llvm::SmallVector<mlir::Value> loop(CodeBuilder &builder, mlir::Value from, mlir::Value to, mlir::Value step,
                                      mlir::ValueRange initial, LoopBody body);

private:
  mlir::Value number(mlir::Operation *id);

  mlir::Value scratch;
  std::optional<KernelValues> wide, single;
};

} // namespace dtc
