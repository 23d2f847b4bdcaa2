// How an operation's loop dimensions are split, and what that asks of its operands and makes of its results.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/place/Axes.h"

namespace dtc {

/// An operation's factors with the atoms that split each of them.
struct Iteration {
  mlir::dt::FactorRule rule;
  llvm::SmallVector<AtomList> atoms;  ///< for each factor
  llvm::SmallVector<bool> canSplit;   ///< not NeedsReplication, and major in every dimension it is part of
  llvm::SmallVector<bool> mustDivide; ///< part of a fused dimension, where padding would fall inside

  explicit Iteration(mlir::dt::FactorOpInterface op);

  AtomMask usedMask() const;
  /// Placement of a tensor with these dimensions. Nothing is partial.
  Placement placementOf(const mlir::dt::DimFactors &dims) const;
  /// The atoms over which result `result` is partial because factors it lacks are split, and how they combine.
  AtomMask partialMask(unsigned result, mlir::dt::ReductionKind &reduction) const;
  /// Whether `dims` has the factor.
  static bool contains(const mlir::dt::DimFactors &dims, int factor);
  /// Takes the atoms off all factors.
  void drop(AtomMask mask);
};

} // namespace dtc
