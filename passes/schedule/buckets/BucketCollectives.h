// The pass dt-bucket-collectives, with rules that have been read.
#pragma once

#include "mlir/Pass/Pass.h"
#include "passes/schedule/buckets/ChooseBuckets.h"

namespace dtc {

/// On a start: the number of its function's bucket that it is a part of, and why these go together.
inline constexpr llvm::StringLiteral bucketAttr = "dt.bucket", bucketWhyAttr = "dt.bucket_why";

/// Applies `rules` and, for what they do not name, those that `size` and `costs` lead to. All of them are written to
/// `chosen`, which must outlive the pass: the given ones first.
std::unique_ptr<mlir::Pass> createBucketCollectives(std::vector<BucketRule> rules, abi::BucketSize size,
                                                    StartCosts costs, std::vector<BucketRule> *chosen);

} // namespace dtc
