// The inner loops of collectives.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtc {

/// Elements are added in blocks of this many. A block stays in the L1 cache while one source after the other is added
/// (each as one run of addresses, which suits prefetchers) and while the targets are written.
inline constexpr int64_t BlockElements = 512;

/// Every target[i] = sources[0][i] op sources[1][i] op ..., in that order, for i < elements. A target may be a source;
/// they overlap in no other way. 16-bit elements are combined in f32 and rounded once. `bypassCache`: the results are
/// too large to be read back from the cache. Throws Error (BadInput) for a type that collectives only move.
void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType type, abi::Reduction reduction, bool bypassCache);

/// Likewise with results of another type: f32 partial sums of 16-bit elements, and the 16-bit totals of such sums.
void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType from, abi::DataType to, abi::Reduction reduction, bool bypassCache);

/// Copies `bytes`; does nothing if source and target are the same.
void copyBytes(std::byte *target, const std::byte *source, int64_t bytes, bool bypassCache);

/// Makes what was written past the cache visible before what is written after this call.
void fenceStores();

} // namespace dtc
