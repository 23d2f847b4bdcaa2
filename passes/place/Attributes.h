// Names of the attributes by which the passes of this phase speak to each other and to the next; see Dialect.td.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dtc {

/// On arguments and results: the compute placement, the storage placement (state only) and the type of the whole.
inline constexpr llvm::StringLiteral shardingAttr = "dt.sharding", storageAttr = "dt.storage", globalAttr = "dt.global";

/// On operations, between propagation and partitioning: how each factor is split (a dt.sharding whose dimensions are
/// the factors), and the compute placements of the results.
inline constexpr llvm::StringLiteral iterationAttr = "dt.iteration", shardingsAttr = "dt.shardings";

/// Whether an output is, by its name, each rank's own share of a sum rather than the sum: these may leave partial.
inline bool isShare(llvm::StringRef outputName) {
  return outputName.starts_with("micro_") || outputName.starts_with("local_");
}

} // namespace dtc
