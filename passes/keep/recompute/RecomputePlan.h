// How the layers of a function are treated between their forward and their backward pass, as rules
// (passes/choices/Recompute.h) say for their classes.
#pragma once

#include "passes/choices/Recompute.h"

#include "dialect/IR/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

#include <optional>

namespace dtc {

/// A class's layers, and their stages.
using ClassLayers = llvm::SmallVector<std::pair<mlir::dt::LayerAttr, int64_t>>;

/// In the order in which the forward pass meets them, by class.
llvm::MapVector<mlir::StringAttr, ClassLayers> layersOf(mlir::func::FuncOp function);

class RecomputePlan {
public:
  /// `rules`: each has a pattern over classes of layers, such as "h.*=5 full, 7 cheap". The last that fits counts; what
  /// none fits is cheap. Emits an error for a rule that cannot be read.
  static mlir::FailureOr<RecomputePlan> of(mlir::func::FuncOp function, llvm::ArrayRef<std::string> rules);

  /// Also for operations in no layer, with a null layer: they are kept, or cheap.
  const abi::Recompute &howOf(mlir::dt::LayerAttr layer) const;
  /// Whether what any layer keeps waits in the host's memory.
  bool offloads() const;
  /// The group with which the operation's layer is recomputed; nothing if it is not.
  std::optional<size_t> groupOf(mlir::Operation *op) const;

private:
  void add(mlir::dt::LayerAttr layer, const abi::Recompute &how, int64_t place);

  std::vector<abi::Recompute> groups; ///< layers that are recomputed together, or one that is not recomputed
  llvm::DenseMap<mlir::dt::LayerAttr, size_t> groupOfLayer;
  abi::Recompute outside;
};

} // namespace dtc
