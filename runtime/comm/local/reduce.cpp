#include "runtime/comm/local/reduce.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <emmintrin.h>
#include <type_traits>

namespace dtc {

/// Writes that bypass the cache are whole lines.
static constexpr int64_t LineBytes = 64;

/// Writes past the cache, in whole lines: the target is aligned to a line and `bytes` is a multiple of one.
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
  // A NaN on either side wins, so it is never lost.
  static float apply(float a, float b) { return a > b || a != a ? a : b; }
  static int32_t apply(int32_t a, int32_t b) { return a > b ? a : b; }
};

/// Elements that are combined in their own type.
template <typename T> struct AsTheyAre {
  using Element = T;
  using Wide = T;
  static T widen(T x) { return x; }
  static T narrow(T x) { return x; }
};
/// The upper half of an f32: combined in f32 and rounded once, to the nearest, ties to even.
struct Bf16 {
  using Element = uint16_t;
  using Wide = float;
  static float widen(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
  static uint16_t narrow(float x) {
    uint32_t bits = std::bit_cast<uint32_t>(x), upper = bits >> 16;
    uint32_t rounded = (bits + 0x7fff + (upper & 1)) >> 16;
    return static_cast<uint16_t>(x != x ? upper | 0x40 : rounded);
  }
};
struct F16 {
  using Element = _Float16;
  using Wide = float;
  static float widen(_Float16 x) { return x; }
  static _Float16 narrow(float x) { return static_cast<_Float16>(x); }
};

template <typename From, typename To, typename Op>
static void reduceBlocks(std::span<std::byte *const> targets, std::span<const std::byte *const> sources,
                         int64_t elements, bool bypassCache) {
  using Source = typename From::Element;
  using T = typename To::Element;
  alignas(64) std::array<typename From::Wide, BlockElements> block;
  alignas(64) std::array<T, BlockElements> result;
  for (int64_t begin = 0; begin < elements; begin += BlockElements) {
    int64_t count = std::min(BlockElements, elements - begin);
    auto source = [&](size_t index) { return reinterpret_cast<const Source *>(sources[index]) + begin; };
    const Source *first = source(0);
    if (sources.size() == 1) {
      for (int64_t i = 0; i < count; ++i)
        block[i] = From::widen(first[i]);
    } else {
      const Source *second = source(1);
      for (int64_t i = 0; i < count; ++i)
        block[i] = Op::apply(From::widen(first[i]), From::widen(second[i]));
    }
    for (size_t index = 2; index < sources.size(); ++index) {
      const Source *next = source(index);
      for (int64_t i = 0; i < count; ++i)
        block[i] = Op::apply(block[i], From::widen(next[i]));
    }
    const T *written = nullptr;
    if constexpr (std::is_same_v<T, typename From::Wide>) {
      written = block.data();
    } else {
      for (int64_t i = 0; i < count; ++i)
        result[i] = To::narrow(block[i]);
      written = result.data();
    }
    for (std::byte *target : targets)
      copyTo(target + begin * sizeof(T), reinterpret_cast<const std::byte *>(written), count * sizeof(T), bypassCache);
  }
}

void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType from, abi::DataType to, abi::Reduction reduction, bool bypassCache) {
  auto reduce = [&]<typename From, typename To>(From, To) {
    switch (reduction) {
    case abi::SUM:
      return reduceBlocks<From, To, Sum>(targets, sources, elements, bypassCache);
    case abi::MAX:
      return reduceBlocks<From, To, Max>(targets, sources, elements, bypassCache);
    default: // unreachable: the validator knows all kinds, and rows are combined elsewhere (weighted_rows.h)
      throw Error(ExitCode::BadInput, "a collective cannot combine elements by " + abi::Reduction_Name(reduction));
    }
  };
  using Float = AsTheyAre<float>;
  using Integer = AsTheyAre<int32_t>;
  switch (from) {
  case abi::F32:
    return to == abi::BF16  ? reduce(Float(), Bf16())
           : to == abi::F16 ? reduce(Float(), F16())
                            : reduce(Float(), Float());
  case abi::I32:
    return reduce(Integer(), Integer());
  case abi::BF16:
    return to == abi::F32 ? reduce(Bf16(), Float()) : reduce(Bf16(), Bf16());
  case abi::F16:
    return to == abi::F32 ? reduce(F16(), Float()) : reduce(F16(), F16());
  default: // the validator refuses such programs
    throw Error(ExitCode::BadInput, "a collective cannot add elements of " + abi::nameOf(from));
  }
}

void reduceInto(std::span<std::byte *const> targets, std::span<const std::byte *const> sources, int64_t elements,
                abi::DataType type, abi::Reduction reduction, bool bypassCache) {
  reduceInto(targets, sources, elements, type, type, reduction, bypassCache);
}

} // namespace dtc
