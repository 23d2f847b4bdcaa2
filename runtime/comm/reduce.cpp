#include "runtime/comm/reduce.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <emmintrin.h>

namespace dtc {

/// Results are formed in blocks of this many elements, which stay in the first-level cache while the sources are added
/// one after the other (each as one run of addresses, as prefetchers like it) and while the targets are written.
static constexpr int64_t BlockElements = 512;
/// What is written past the cache is written in whole lines.
static constexpr int64_t LineBytes = 64;

/// Writes past the cache, in whole lines: the target is aligned to one and `bytes` a multiple.
static void streamOut(std::byte *target, const std::byte *source, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += LineBytes)
    for (int64_t i = line; i < line + LineBytes; i += sizeof(__m128i)) {
      __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + i));
      _mm_stream_si128(reinterpret_cast<__m128i *>(target + i), part);
    }
}

static void copyTo(std::byte *target, const std::byte *source, int64_t bytes, bool bypassCache) {
  int64_t head = 0, whole = 0;
  if (bypassCache) {
    head = std::min<int64_t>(bytes, -reinterpret_cast<uintptr_t>(target) % LineBytes);
    whole = (bytes - head) / LineBytes * LineBytes;
  }
  std::memcpy(target, source, head);
  streamOut(target + head, source + head, whole);
  std::memcpy(target + head + whole, source + head + whole, bytes - head - whole);
}

void copyBytes(std::byte *target, const std::byte *source, int64_t bytes, bool bypassCache) {
  if (target != source)
    copyTo(target, source, bytes, bypassCache);
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
      copyTo(target + begin * sizeof(T), reinterpret_cast<const std::byte *>(block.data()), count * sizeof(T),
             bypassCache);
  }
}

void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType type, abi::Reduction reduction, bool bypassCache) {
  bool sum = reduction == abi::SUM;
  if (type == abi::F32)
    (sum ? reduceBlocks<float, Sum> : reduceBlocks<float, Max>)(targets, sources, elements, bypassCache);
  else if (type != abi::I32) // the validator refuses such programs
    throw Error(ExitCode::BadInput, "a collective cannot add elements of " + abi::nameOf(type));
  else
    (sum ? reduceBlocks<int32_t, Sum> : reduceBlocks<int32_t, Max>)(targets, sources, elements, bypassCache);
}

} // namespace dtc
