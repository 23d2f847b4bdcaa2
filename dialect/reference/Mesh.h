// Which ranks stand where on a mesh. Ranks are row-major over the axes; an index within a list of axis references is
// row-major over them, the first most significant.
#pragma once

#include "dialect/IR/Attributes.h"

namespace mlir::dt {

/// Number of ranks that differ only in `axes`.
int64_t getGroupSize(MeshAttr mesh, ArrayRef<AxisRefAttr> axes);

/// The index of `rank` within `axes`.
int64_t getIndexIn(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes);

/// The rank that stands at `index` within `axes` and otherwise where `rank` does.
int64_t moveTo(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes, int64_t index);

/// The ranks that differ from `rank` only in `axes`, in the order of their indices there.
SmallVector<int64_t> getGroup(MeshAttr mesh, int64_t rank, ArrayRef<AxisRefAttr> axes);

} // namespace mlir::dt
