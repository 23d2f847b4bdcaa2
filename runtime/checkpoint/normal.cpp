#include "runtime/checkpoint/normal.h"

#include "runtime/abi/random.h"

#include <algorithm>
#include <cmath>

namespace dtc {

// Always whole blocks: an element must not depend on whether the vector loop or its scalar tail computes it.
static constexpr int64_t Block = 512;

static void fillBlock(float *out, uint32_t stream, uint64_t first, double stddev) {
  double u[Block], v[Block];
  for (int64_t i = 0; i < Block; ++i) {
    uint64_t index = 2 * (first + static_cast<uint64_t>(i));
    // Through int32_t: AVX2 converts only signed integers to doubles. The values have 24 bits.
    u[i] = 1.0 - static_cast<int32_t>(random::bits(stream, index) >> 8) * 0x1p-24;
    v[i] = static_cast<int32_t>(random::bits(stream, index + 1) >> 8) * (0x1p-24 * 6.283185307179586);
  }
  for (int64_t i = 0; i < Block; ++i)
    out[i] = static_cast<float>(stddev * std::sqrt(-2.0 * std::log(u[i])) * std::cos(v[i]));
}

void fillNormal(std::span<float> out, uint32_t stream, uint64_t first, double stddev) {
  float block[Block];
  for (size_t done = 0; done < out.size(); done += Block) {
    fillBlock(block, stream, first + done, stddev);
    std::copy_n(block, std::min<size_t>(Block, out.size() - done), out.data() + done);
  }
}

} // namespace dtc
