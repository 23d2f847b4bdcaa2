// Factors: the einsum-like rule with which an operation tells propagation, partitioning and cost how its loop
// dimensions map to its operands' and results' dimensions.
//
//   dt.contract "bsd,df->bsf":   factors b s d f;  lhs: [b] [s] [d];  rhs: [d] [f];  result: [b] [s] [f]
//   dt.reshape [b,s,h*e] -> [b,s,h,e]:  factors b s h e;  operand: [b] [s] [h e];  result: [b] [s] [h] [e]
//
// A factor may be split over mesh axes. Each operand dimension lists its factors major to minor, so splitting a fused
// dimension splits its major factor. A result that lacks a split factor holds a partial result over that factor's axes;
// the factor's reduction says how the pieces combine.
#pragma once

#include "dialect/IR/Attributes.h"

namespace mlir::dt {

enum class FactorKind {
  Parallel,        ///< may be split; every result has it
  Reduction,       ///< may be split; results lacking it become partial
  NeedsReplication ///< each rank must hold it whole
};

struct Factor {
  int64_t size;
  FactorKind kind = FactorKind::Parallel;
  ReductionKind reduction = ReductionKind::Sum; ///< for Reduction factors
};

/// For each dimension of a tensor, its factors (indices into FactorRule::factors), major to minor. A dimension of size
/// 1 may have none. Inline sizes cover the usual case, because rules are made often, for every operation.
using DimFactors = SmallVector<SmallVector<int, 1>, 4>;

struct FactorRule {
  SmallVector<Factor, 4> factors;
  SmallVector<DimFactors, 2> operands;
  SmallVector<DimFactors, 1> results;

  int addFactor(int64_t size, FactorKind kind = FactorKind::Parallel, ReductionKind reduction = ReductionKind::Sum) {
    factors.push_back({size, kind, reduction});
    return static_cast<int>(factors.size()) - 1;
  }
};

/// How an operation's results depend on one operand, for operands that are partial sums; see FactorOpInterface.
enum class Linearity { Nonlinear, Multilinear, Additive };

/// Clones the operation onto other operands and result types; attributes and location are kept.
Operation *cloneOnto(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange results);

/// Product of the sizes of all factors.
double iterations(const FactorRule &rule);

} // namespace mlir::dt
