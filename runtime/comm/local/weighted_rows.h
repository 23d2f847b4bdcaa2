// Rows that each come with the logarithm of their weight: what Reduction LOG_SUM_EXP of manifest.proto combines.
#pragma once

#include "runtime/abi/element_type.h"
#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtc {

/// The bytes of an element of such rows, and of a logarithm.
inline constexpr int64_t FloatBytes = abi::elementType(abi::F32).bytes;

/// Where rows of f32 elements are, and their logarithms, one f32 per row; distances in bytes.
struct WeightedRows {
  std::byte *values;
  int64_t valueStride;
  std::byte *logs;
  int64_t logStride;

  WeightedRows from(int64_t row) const {
    return {values + row * valueStride, valueStride, logs + row * logStride, logStride};
  }
};

/// How many rows member `index` of `count` combines: a slice of an all-reduce's rows, or every p-th row of a
/// reduce-scatter's.
int64_t rowCountOf(const abi::Collective &collective, int64_t index, int64_t count);

/// Those rows within the whole operand's values and logarithms.
WeightedRows rowsOf(const abi::Collective &collective, std::byte *values, std::byte *logs, int64_t index,
                    int64_t count);

/// Rows of a collective's size, stored contiguously.
WeightedRows denseRows(const abi::Collective &collective, std::byte *values, std::byte *logs);

/// Combines rows i of all sources into row i of every target, added in f64 in the order of the sources and rounded
/// once. The values of a row of weight 0 do not count; if all weights are 0, the result is 0 and its logarithm
/// -infinity. `chunk`: elements of a row. A target may be a source; they overlap in no other way.
void mergeRows(std::span<const WeightedRows> targets, std::span<const WeightedRows> sources, int64_t rows,
               int64_t chunk);

} // namespace dtc
