// The canonicalizer as the phases run it.
#pragma once

#include "mlir/Transforms/Passes.h"

namespace dtc {

/// Functions of the dialect are one block: there are no regions to simplify, and looking for it takes as long as the
/// rewrites. What a rewrite touches is revisited at once, so a second round over everything would find nothing.
inline std::unique_ptr<mlir::Pass> createCanonicalizer() {
  mlir::GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled);
  config.setMaxIterations(1);
  return mlir::createCanonicalizerPass(config);
}

} // namespace dtc
