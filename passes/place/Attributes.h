// Names of the attributes by which the passes of this phase speak to each other and to the next; see Dialect.td.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtc {

/// On operations, between propagation and partitioning: how each factor is split (a dt.sharding whose dimensions are
/// the factors), and the compute placements of the results.
inline constexpr llvm::StringLiteral iterationAttr = "dt.iteration", shardingsAttr = "dt.shardings";

} // namespace dtc
