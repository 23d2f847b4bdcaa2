// Resharding: the chain of collectives and local operations that takes a piece of a value from one placement to
// another.
//
//   partial -> whole    all_reduce            2 (p - 1) / p of the piece's bytes
//   partial -> split    reduce_scatter          (p - 1) / p of the piece's bytes
//   split   -> whole    all_gather              (p - 1) / p of the result's bytes
//   split   -> split    all_to_all              (p - 1) / p of the piece's bytes
//   whole   -> split    shard_slice           nothing
//
// A chain first does what makes the piece smaller, then moves, then gathers, and last cuts what only then can be cut. A
// dimension that does not divide evenly is gathered whole before it is cut otherwise: the boundaries of unequal
// numbers of padded pieces do not align.
#pragma once

#include "dialect/IR/Marks.h"
#include "passes/place/Axes.h"

namespace dtc {

struct ReshardStep {
  enum class Kind { ReduceScatter, AllReduce, AllToAll, AllGather, Slice } kind;
  int64_t dim = 0;       ///< the dimension; for AllToAll the dimension that becomes split
  int64_t concatDim = 0; ///< AllToAll: the dimension that becomes whole
  AtomList atoms;
  mlir::dt::ReductionKind reduction; ///< of ReduceScatter and AllReduce
  Placement after;
};

/// The steps from one placement to another. `to.partial` must be part of `from.partial`; partial values that combine in
/// another way are resolved by a collective of their own, in the order of the kinds.
llvm::SmallVector<ReshardStep> planReshard(const AxisTable &axes, llvm::ArrayRef<int64_t> global, const Placement &from,
                                           const Placement &to);

/// Bytes that a rank sends, by the table above.
double reshardBytes(const AxisTable &axes, mlir::RankedTensorType global, const Placement &from,
                    llvm::ArrayRef<ReshardStep> steps);

/// What collectives say about themselves.
struct ReshardNote {
  mlir::Location loc;
  mlir::dt::Marks marks;
  std::string reason, remedy;
};

/// Builds the steps on `local`, the piece of a value of type `global`, placed as the first step expects.
mlir::Value buildReshard(mlir::OpBuilder &builder, const AxisTable &axes, mlir::Value local,
                         mlir::RankedTensorType global, llvm::ArrayRef<ReshardStep> steps, const ReshardNote &note);

} // namespace dtc
