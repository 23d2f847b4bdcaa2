// The table of element types: the one place that knows how wide an element is, what files call it, and how it is
// rounded. The compiler (dialect/IR/ElementTypes.h), the runtime and the tools all use it; test/docs/element_width_test
// checks that no other code hard-codes a width.
//
//   name   bytes  safetensors  config.json  exponent, fraction bits  accumulates in
//   f32    4      F32          float32      8, 23                    f32 (kernels sum long chains in f64)
//   i32    4      I32          int32                                 i32, wrapping around
//   bf16   2      BF16         bfloat16     8, 7                     f32
//   f16    2      F16          float16      5, 10                    f32
//   i8     1      I8           int8                                  i32
//   mask   4      I32          int32                                 i32
//
// A mask is i1 in the compiler and an i32 of 0 or 1 in memory: kernels load and store it with the same masks and
// vectors as the other four-byte types.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace dtc::abi {

struct ElementType {
  DataType type;
  std::string_view name;          ///< for people, and in the compiler's IR if that has the type
  uint32_t bytes;                 ///< in memory and in files
  std::string_view safetensors;   ///< "dtype" in a safetensors header
  std::string_view config;        ///< "dtype" in a model's config.json, as NumPy and PyTorch say
  int exponentBits, fractionBits; ///< of an IEEE 754 binary format; 0 for integers
  DataType accumulator;           ///< sums of many elements are formed in this type

  constexpr bool isFloating() const { return exponentBits > 0; }
  /// Whether a collective can combine elements: as they are, or floating-point ones widened to f32 and rounded once.
  constexpr bool canReduce() const { return accumulator == type || isFloating(); }
};

inline constexpr std::array<ElementType, 6> ElementTypes = {{
    {F32, "f32", 4, "F32", "float32", 8, 23, F32},
    {I32, "i32", 4, "I32", "int32", 0, 0, I32},
    {BF16, "bf16", 2, "BF16", "bfloat16", 8, 7, F32},
    {F16, "f16", 2, "F16", "float16", 5, 10, F32},
    {I8, "i8", 1, "I8", "int8", 0, 0, I32},
    {MASK, "mask", 4, "I32", "int32", 0, 0, I32},
}};

/// The row of a type, or null if the number is not a type: a manifest is untrusted input.
constexpr const ElementType *findElementType(int type) {
  for (const ElementType &row : ElementTypes)
    if (row.type == type)
      return &row;
  return nullptr;
}

/// The row of a type that is known to be valid.
constexpr const ElementType &elementType(DataType type) { return *findElementType(type); }

/// The type of a safetensors "dtype", or null: the format has types that dtc does not support.
constexpr const ElementType *findSafetensorsType(std::string_view name) {
  for (const ElementType &row : ElementTypes)
    if (row.safetensors == name)
      return &row;
  return nullptr;
}

constexpr uint64_t bytesOf(DataType type, uint64_t elements) { return elements * elementType(type).bytes; }

/// "f32", or "element type 17" if the number is not a type.
inline std::string nameOf(DataType type) {
  const ElementType *row = findElementType(type);
  return row ? std::string(row->name) : "element type " + std::to_string(static_cast<int>(type));
}

/// The nearest value that `type` can hold, ties to even, as in IEEE 754: subnormals are kept, what rounds beyond the
/// largest value becomes infinite, NaN stays NaN. Exact, because a double has more than twice the bits. Integers are
/// returned unchanged.
inline double roundTo(const ElementType &type, double x) {
  if (!type.isFloating() || x == 0 || !std::isfinite(x))
    return x;
  if (type.type == F32) // the processor does the same
    return static_cast<float>(x);
  int bias = (1 << (type.exponentBits - 1)) - 1;
  // The unit in the last place: of x's own binade, or of the smallest normal one.
  int exponent = std::max(std::ilogb(x), 1 - bias);
  double unit = std::ldexp(1.0, exponent - type.fractionBits);
  double rounded = std::nearbyint(x / unit) * unit; // a division by a power of two: exact
  return std::abs(rounded) >= std::ldexp(1.0, bias + 1) ? std::copysign(std::numeric_limits<double>::infinity(), x)
                                                        : rounded;
}

/// The bits of the element at `from`, which need not be aligned.
inline uint32_t readBits(const ElementType &type, const std::byte *from) {
  uint32_t bits = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&bits, from, type.bytes);
  return bits;
}

/// Whether these bits are neither an infinity nor a NaN; always true for integers.
constexpr bool isFiniteBits(const ElementType &type, uint32_t bits) {
  uint32_t most = (1u << type.exponentBits) - 1;
  return !type.isFloating() || (bits >> type.fractionBits & most) != most;
}

/// The value of the element at `from`, which need not be aligned.
inline double readElement(const ElementType &type, const std::byte *from) {
  uint32_t bits = readBits(type, from);
  int width = static_cast<int>(type.bytes) * 8;
  if (!type.isFloating()) // sign-extended
    return static_cast<int32_t>(bits << (32 - width)) >> (32 - width);
  constexpr const ElementType &f32 = elementType(F32);
  if (type.exponentBits == f32.exponentBits) // these are the upper bits of an f32
    return std::bit_cast<float>(bits << (f32.fractionBits - type.fractionBits));
  uint32_t fraction = bits & ((1u << type.fractionBits) - 1);
  uint32_t exponent = bits >> type.fractionBits & ((1u << type.exponentBits) - 1);
  uint32_t most = (1u << type.exponentBits) - 1;
  int bias = static_cast<int>(most / 2);
  double magnitude;
  if (exponent == most)
    magnitude = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, 1 - bias - type.fractionBits);
  else
    magnitude = std::ldexp(fraction + (1u << type.fractionBits), static_cast<int>(exponent) - bias - type.fractionBits);
  return bits >> (width - 1) ? -magnitude : magnitude;
}

} // namespace dtc::abi
