// Helpers that the factor rules share.
#pragma once

#include "dialect/IR/Ops.h"

namespace mlir::dt {

/// One new factor for each dimension of `type`; dimensions of size 1 get none, since they cannot be split.
DimFactors addFactorPerDim(FactorRule &rule, RankedTensorType type, FactorKind kind = FactorKind::Parallel);

/// Appends a dimension of one factor to `dims`; a dimension of size 1 gets none.
void appendDim(DimFactors &dims, int factor, int64_t size);

inline RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

} // namespace mlir::dt
