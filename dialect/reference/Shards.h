// Cutting whole tensors into the pieces of a sharding and putting them together again: the bridge between a logical
// module and its partitioned form in tests and in `dtc verify`.
#pragma once

#include "dialect/reference/Interpreter.h"

#include <limits>

namespace mlir::dt {

/// What undefined padding is filled with, so that a result that depends on it shows.
inline constexpr double poisonValue = std::numeric_limits<double>::quiet_NaN();

/// The pieces of `global` on every rank. Elements beyond the whole become `padding`. Where the sharding is a partial
/// sum, the first rank along these axes holds the value and the others zeros; a partial maximum is held by all.
HostTensors scatter(const HostTensor &global, ShardingAttr sharding, MeshAttr mesh, double padding = poisonValue);

/// The whole tensor of `globalShape` that the pieces make: partial pieces are combined, padding is dropped.
/// `problem` is set, and nothing returned, when a piece has the wrong shape or two ranks that should hold equal pieces
/// differ; it names the ranks, the element and both values. NaNs are equal to one another.
std::optional<HostTensor> gather(ArrayRef<HostTensor> pieces, ShardingAttr sharding, MeshAttr mesh,
                                 ArrayRef<int64_t> globalShape, std::string &problem);

} // namespace mlir::dt
