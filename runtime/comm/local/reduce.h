// The loops over data that collectives consist of.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtc {

/// Elements are added up in blocks of this many, which stay in the first-level cache while one source is added after
/// the other (each as one run of addresses, as prefetchers like it) and while the targets are written.
inline constexpr int64_t BlockElements = 512;

/// Every target[i] = sources[0][i] op sources[1][i] op ..., in that order, for i < elements. A target may be a source;
/// they overlap in no other way. Elements of 16 bits are combined in f32 and rounded once. `bypassCache`: the results
/// are too large to be read from the cache soon. Throws Error (BadInput) for a type that collectives only move.
void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType type, abi::Reduction reduction, bool bypassCache);

/// As that, for results of another type: partial sums of elements of 16 bits in f32, and what these sum up to in 16
/// bits.
void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType from, abi::DataType to, abi::Reduction reduction, bool bypassCache);

/// Copies `bytes`; nothing happens when source and target are the same.
void copyBytes(std::byte *target, const std::byte *source, int64_t bytes, bool bypassCache);

/// Makes what was written past the cache visible before what is written after this call.
void fenceStores();

} // namespace dtc
