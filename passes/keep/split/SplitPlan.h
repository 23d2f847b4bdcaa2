// Which operations of a function are done in parts of the batch, and along which of their factors.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/keep/split/PartRules.h"

namespace dtc {

/// An operation that is done in parts: it treats each index along a factor independently.
struct Split {
  mlir::dt::FactorRule rule;
  int factor;
  int64_t parts;

  /// The dimension whose major or only factor it is; -1 if there is none.
  static int64_t dimOf(const mlir::dt::DimFactors &dims, int factor);
  /// Whether each index along a factor is treated independently, in all results, and its parts are contiguous.
  static bool isIndependent(const mlir::dt::FactorRule &rule, int factor);
  int64_t dimOfOperand(unsigned operand) const { return dimOf(rule.operands[operand], factor); }
  int64_t dimOfResult(unsigned result) const { return dimOf(rule.results[result], factor); }
};

/// Starting at each collective of an activation, along its first dimension: what makes and reads it in the forward pass
/// and for the gradients of activations, as far as factors say that each index along it is treated independently.
/// `rules` say in how many parts layers are done, by their class ("h.*"); no operation is found in a layer of one part.
llvm::DenseMap<mlir::Operation *, Split> findSplits(mlir::func::FuncOp function, const PartRules &rules);

} // namespace dtc
