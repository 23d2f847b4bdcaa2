// Which gathers of a function's parameters are shared, as rules (passes/choices/Gathers.h) say.
#pragma once

#include "passes/analysis/GatheredState.h"
#include "passes/choices/Gathers.h"
#include "passes/keep/ParameterRules.h"

#include "dialect/IR/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc {

class GatherPlan {
public:
  /// `rules`: each has a pattern over parameters, such as "h.*=8 again, 4 shared". The last that fits counts. Emits an
  /// error for a rule that cannot be read.
  static mlir::FailureOr<GatherPlan> of(mlir::func::FuncOp function, llvm::ArrayRef<std::string> rules);

  /// A parameter belongs to the layer that gathers it first. Nothing where no rule fits.
  std::optional<Gathering> howOf(const GatheredState &gather) const;

private:
  struct Place {
    int64_t layer, count; ///< its number among `count` of its class, from 0
  };

  ParameterRules<std::vector<GatherRun>> rules;
  llvm::DenseMap<mlir::dt::LayerAttr, Place> places;
};

} // namespace dtc
