// How a kernel plan runs on a GPU: with which loops, by how many threads, in how many functions, with which scratch.
// What is emitted (GpuEmitter.h) and what is launched both follow from it.
//
//   Elements  nothing is reduced. A thread does one vector of the whole, up to 16 bytes of the widest buffer.
//   Rows      reductions over the columns, of rows that one block can hold. A row belongs to 1 to 32 neighbouring
//             threads of a warp, or to a block. Where a thread's share of a row fits into registers it is read once and
//             the sweeps after the first work on registers; otherwise each sweep rereads it, but a maximum and the sum
//             of exponentials relative to it take one sweep (dialect/IR/OnlineSums.h).
//   Linear    reductions of everything (KernelKind::Total, or Flat of many elements). A result has `parts` blocks; each
//             thread takes every (parts * threads)-th vector. One function per sweep leaves each block's partial result
//             in scratch, and the next function's blocks combine them in order.
//   Columns   reductions over leading dimensions. A block computes 32 vectors of columns with 8 threads over the rows
//             of one of `parts`; a second function combines the parts.
//
// The cut into threads, blocks and parts follows from the sizes alone, and partial results are combined in a fixed
// order, without atomic operations: results do not depend on the device or the run.
//
// Accuracy: terms of a sum are added in f32 by chains of at most `longestChain` terms a lane and a tree over lanes and
// threads; partial sums of different blocks are added in f64. The error of a sum is thus below
// (longestChain + 10) 2^-24 of the sum of absolute values, typically a hundredth of it.
#pragma once

#include "passes/lower/kernels/KernelPlan.h"

namespace dtc {

enum class GpuSkeleton { Elements, Rows, Linear, Columns };

/// One function of a kernel: one launch.
struct GpuPass {
  int64_t grid = 1;    ///< blocks
  int64_t threads = 1; ///< of a block
};

struct GpuShape {
  GpuSkeleton skeleton = GpuSkeleton::Elements;
  unsigned lanes = 1;
  int64_t rowThreads = 1;     ///< Rows: threads that share a row, a power of two; a divisor of a warp or a block
  int64_t heldVectors = 0;    ///< Rows: vectors of a row that a thread keeps in registers; 0: sweeps read again
  int64_t vectorsOfRound = 1; ///< Rows that are reread: what a thread requests before it waits
  int64_t rowsOfRound = 1;    ///< Columns: rows that a thread requests before it waits for one
  int64_t parts = 1;          ///< Linear, Columns: blocks among which the terms of a result are divided
  llvm::SmallVector<GpuPass, 2> passes;
  int64_t scratchBytes = 0; ///< that the functions share; needs no initial value

  /// Bytes of the widest access of one thread: buffers begin at multiples of this.
  static constexpr int64_t bufferAlignment = 16;
  static constexpr int64_t warp = 32;
  static constexpr int64_t threads = 256;                 ///< of a block, except for Rows
  static constexpr int64_t longestChain = 256;            ///< terms that one lane adds up
  static constexpr int64_t partialBytes = sizeof(double); ///< of one partial result in scratch and in workgroup memory
  static constexpr int64_t leastRounds = 4;               ///< that a thread makes before another block is worth starting
  /// Rows that are read again: blocks that a multiprocessor has at once. While one waits for all its threads to finish
  /// a row, the other works.
  static constexpr int64_t longRowBlocks = 2;
  static constexpr int64_t columnVectors = warp, rowsAtOnce = threads / warp; ///< of a block of Columns
  /// For Linear: as many parts as this gives, at most `mostParts` (for all results together), unless chains would get
  /// too long.
  static constexpr int64_t vectorsOfPart = leastRounds * threads, mostParts = 1024;
  static constexpr int64_t vectorsOfLongestPart = longestChain * threads;
};

GpuShape gpuShapeOf(const KernelPlan &plan);

} // namespace dtc
