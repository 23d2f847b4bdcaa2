// A value of a function being partitioned: its placements and the pieces that have been made of it.
#pragma once

#include "passes/place/Axes.h"

#include <memory>
#include <optional>
#include <string>

namespace dtc {

/// A piece of a value.
struct Version {
  const Placement *placement; ///< kept by the axis table, as all placements here: equal ones are one
  mlir::Value value;
  std::optional<double> padding; ///< what every padding element holds, when that is known
};

/// Why a value that came in as an argument is partial, as an earlier function tells it.
struct PartialOrigin {
  std::string cause, remedy;
};

/// A value of the function being partitioned.
struct LocalValue {
  mlir::RankedTensorType global;
  /// Where propagation wants it: partial values with several users are resolved to this.
  const Placement *home = nullptr;
  llvm::SmallVector<Version, 1> versions; ///< first the one that was produced
  mlir::Operation *partialBy = nullptr;   ///< the operation whose split reduction made it partial
  std::unique_ptr<PartialOrigin> origin;  ///< of an argument that is partial
};

} // namespace dtc
