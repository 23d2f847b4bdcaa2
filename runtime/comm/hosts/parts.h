// How a reduction is divided among those who add.
#pragma once

#include "runtime/comm/hosts/streams.h"

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>

namespace dtc {

/// The bytes of slice `index` of `slices` of a run of elements, which begins at whole cache lines from its start.
Strided sliceOf(std::byte *base, int64_t elements, int64_t width, int64_t index, int64_t slices);

/// The part of an operand that the result of number `index` of `count` is made of: a slice for an all-reduce, a chunk
/// of each row for a reduce-scatter.
Strided partOf(const abi::Collective &collective, std::byte *base, int64_t index, int64_t count);

} // namespace dtc
