// Initial weights in bulk.
#pragma once

#include <cstdint>
#include <span>

namespace dtc {

/// out[i] = stddev * random::normal(stream, first + i), rounded to f32: the same value for the same element wherever a
/// range begins or ends. Vectorized; the logarithm and cosine are within 4 units of the last place of f64.
void fillNormal(std::span<float> out, uint32_t stream, uint64_t first, double stddev);

} // namespace dtc
