#include "runtime/comm/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <xmmintrin.h>

namespace dtc {

/// Results are formed in blocks of this many elements, which stay in the first-level cache while the sources are added
/// one after the other (each as one run of addresses, as prefetchers like it) and while the targets are written.
static constexpr int64_t BlockElements = 512;

/// Writes past the cache, in whole lines: the target is aligned to 64 bytes and `elements` a multiple of 16.
static void streamOut(float *target, const float *source, int64_t elements) {
  for (int64_t i = 0; i < elements; i += 16) {
    _mm_stream_ps(target + i, _mm_loadu_ps(source + i));
    _mm_stream_ps(target + i + 4, _mm_loadu_ps(source + i + 4));
    _mm_stream_ps(target + i + 8, _mm_loadu_ps(source + i + 8));
    _mm_stream_ps(target + i + 12, _mm_loadu_ps(source + i + 12));
  }
}

static void copyElements(float *target, const float *source, int64_t elements, bool bypassCache) {
  int64_t head = 0, whole = 0;
  if (bypassCache) {
    head = std::min<int64_t>(elements, -(reinterpret_cast<uintptr_t>(target) / 4) % 16);
    whole = (elements - head) / 16 * 16;
  }
  std::memcpy(target, source, head * 4);
  streamOut(target + head, source + head, whole);
  std::memcpy(target + head + whole, source + head + whole, (elements - head - whole) * 4);
}

void copyBytes(std::byte *target, const std::byte *source, int64_t bytes, bool bypassCache) {
  if (target == source)
    return;
  copyElements(reinterpret_cast<float *>(target), reinterpret_cast<const float *>(source), bytes / 4, bypassCache);
}

void fenceStores() { _mm_sfence(); }

struct Sum {
  // Unsigned, because integers wrap around.
  static float apply(float a, float b) { return a + b; }
  static int32_t apply(int32_t a, int32_t b) { return static_cast<int32_t>(uint32_t(a) + uint32_t(b)); }
};
struct Max {
  // A NaN on either side wins, so that it is not lost.
  static float apply(float a, float b) { return a > b || a != a ? a : b; }
  static int32_t apply(int32_t a, int32_t b) { return a > b ? a : b; }
};

template <typename T, typename Op>
static void reduceBlocks(std::span<std::byte *const> targets, std::span<const std::byte *const> sources,
                         int64_t elements, bool bypassCache) {
  alignas(64) std::array<T, BlockElements> block;
  for (int64_t begin = 0; begin < elements; begin += BlockElements) {
    int64_t count = std::min(BlockElements, elements - begin);
    auto source = [&](size_t index) { return reinterpret_cast<const T *>(sources[index]) + begin; };
    const T *first = source(0);
    if (sources.size() == 1) {
      std::memcpy(block.data(), first, count * sizeof(T));
    } else {
      const T *second = source(1);
      for (int64_t i = 0; i < count; ++i)
        block[i] = Op::apply(first[i], second[i]);
    }
    for (size_t index = 2; index < sources.size(); ++index) {
      const T *next = source(index);
      for (int64_t i = 0; i < count; ++i)
        block[i] = Op::apply(block[i], next[i]);
    }
    for (std::byte *target : targets)
      copyElements(reinterpret_cast<float *>(target) + begin, reinterpret_cast<const float *>(block.data()), count,
                   bypassCache);
  }
}

void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType type, abi::Reduction reduction, bool bypassCache) {
  bool sum = reduction == abi::SUM;
  if (type == abi::F32)
    (sum ? reduceBlocks<float, Sum> : reduceBlocks<float, Max>)(targets, sources, elements, bypassCache);
  else
    (sum ? reduceBlocks<int32_t, Sum> : reduceBlocks<int32_t, Max>)(targets, sources, elements, bypassCache);
}

} // namespace dtc
