// What the two ways of moving rows of a parameter instead of all of it have in common (LateRows.h, LookedUpRows.h).
#pragma once

#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"

namespace dtc {

/// What a rank sends.
struct SentBytes {
  double whole = 0, rows = 0;

  /// Whether moving the rows takes much less than moving everything.
  bool isWorthIt() const {
    constexpr double least = 1 << 20; // below, the time is latency, and programs stay simpler
    return whole >= least && 2 * rows < whole;
  }
  SentBytes &operator+=(const SentBytes &other) {
    whole += other.whole;
    rows += other.rows;
    return *this;
  }
};

/// The dimension that is this factor alone; -1 where none is.
inline int64_t dimOf(const mlir::dt::DimFactors &dims, int factor) {
  for (auto [dim, factors] : llvm::enumerate(dims))
    if (factors.size() == 1 && factors.front() == factor)
      return static_cast<int64_t>(dim);
  return -1;
}

/// How many ranks take part in a collective over these axes.
inline int64_t ranksAlong(llvm::ArrayRef<mlir::dt::AxisRefAttr> axes, mlir::dt::MeshAttr mesh) {
  int64_t ranks = 1;
  for (mlir::dt::AxisRefAttr axis : axes)
    ranks *= axis.getSizeIn(mesh);
  return ranks;
}

inline mlir::RankedTensorType typeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

/// A parameter's name for all layers like `op`'s, if `op` belongs to one.
inline mlir::StringAttr classOf(mlir::StringAttr parameter, mlir::Operation *op) {
  llvm::StringRef name = parameter.getValue();
  mlir::dt::LayerAttr layer = mlir::dt::marksOf(op).layer;
  bool isOfLayer = layer && name.consume_front(layer.fullName());
  return isOfLayer ? mlir::StringAttr::get(op->getContext(), layer.getList().getValue() + ".*" + name) : parameter;
}

} // namespace dtc
