// Which operations of a function are done in parts of the batch, and along which of their factors.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/keep/split/PartRules.h"

namespace dtc {

/// An operation that is done in parts: it treats each index along a factor alone.
struct Split {
  mlir::dt::FactorRule rule;
  int factor;
  int64_t parts;

  /// The dimension of which the factor is the major one, or all; -1 where it is none's.
  static int64_t dimOf(const mlir::dt::DimFactors &dims, int factor);
  /// Whether each index along a factor is treated alone, in all results, and parts of it lie in one piece.
  static bool isIndependent(const mlir::dt::FactorRule &rule, int factor);
  int64_t dimOfOperand(unsigned operand) const { return dimOf(rule.operands[operand], factor); }
  int64_t dimOfResult(unsigned result) const { return dimOf(rule.results[result], factor); }
};

/// From each collective of an activation on, along its first dimension, what makes and reads it in the forward pass and
/// for the gradients of activations, as far as factors say that it treats each index along that alone. `rules` say in
/// how many parts layers are done, by their class ("h.*"); of one no operation is found.
llvm::DenseMap<mlir::Operation *, Split> findSplits(mlir::func::FuncOp function, const PartRules &rules);

} // namespace dtc
