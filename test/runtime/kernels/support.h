// What the kernel tests share: levels to run at, random data, tolerances.
#pragma once

#include "runtime/abi/element_type.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/kernels/cpu/variants.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dtc::kernels::test {

/// The levels that this machine can run.
inline std::vector<const VariantTable *> levels() {
  std::vector<const VariantTable *> all = {&v3::table};
  if (__builtin_cpu_supports("x86-64-v4"))
    all.push_back(&v4::table);
  if (hasBf16Products())
    all.push_back(&v4bf16::table);
  if (hasTileProducts())
    all.push_back(&v4amx::table);
  return all;
}

inline std::string levelName(const VariantTable *level) {
  return level == &v3::table ? "v3" : level == &v4::table ? "v4" : level == &v4bf16::table ? "v4bf16" : "v4amx";
}

/// A tensor of 16-bit elements: its bits, and the numbers they are.
struct Narrow {
  const abi::ElementType &type;
  std::vector<uint16_t> bits;

  Narrow(dtc_element element, const std::vector<float> &values)
      : type(abi::elementType(static_cast<abi::DataType>(element))) {
    for (float value : values)
      bits.push_back(bitsOf(value));
  }
  /// Of the nearest value that the type has.
  uint16_t bitsOf(float value) const {
    double rounded = abi::roundTo(type, value);
    if (type.type == abi::BF16)
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(rounded)) >> 16);
    return std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const uint16_t &element : bits)
      all.push_back(static_cast<float>(abi::readElement(type, reinterpret_cast<const std::byte *>(&element))));
    return all;
  }
};

inline std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = uniform(engine);
  return values;
}

inline int64_t real(double value) { return std::bit_cast<int64_t>(value); }

/// A const_cast in one place: kernels take inputs and outputs in one array.
inline void *buffer(const void *p) { return const_cast<void *>(p); }

/// Runs a kernel over [0, grid) in `parts` nearly equal parts, last part first.
inline void runInParts(dtc_kernel_fn kernel, const std::vector<void *> &buffers, const std::vector<int64_t> &scalars,
                       int64_t grid, int64_t parts = 1) {
  for (int64_t i = parts; i-- > 0;)
    kernel(buffers.data(), scalars.data(), grid * i / parts, grid * (i + 1) / parts);
}

/// The norm of the difference relative to the norm of the expected values.
inline double relativeError(const std::vector<float> &actual, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

} // namespace dtc::kernels::test
