#include "tools/verify/PoisonedMemory.h"

#include <algorithm>

namespace dtc::verify {

/// More than any vector, before and after the used part.
static constexpr int64_t margin = 256;
static constexpr size_t page = 4096;
static constexpr std::byte poisonByte{0xff};

PoisonedMemory::PoisonedMemory(int64_t elements, const abi::ElementType &type, int64_t shift)
    : memory(static_cast<size_t>(elements + shift) * type.bytes + 3 * page),
      begin(memory.data() + page + shift * type.bytes) {}

void PoisonedMemory::poison(const std::vector<int64_t> &elements, const abi::ElementType &type) {
  for (int64_t element : elements) {
    std::byte *from = begin + element * type.bytes - margin, *to = from + type.bytes + 2 * margin;
    if (!stretches.empty() && from <= stretches.back().end && from >= stretches.back().begin)
      stretches.back().end = std::max(to, stretches.back().end);
    else
      stretches.push_back({from, to});
  }
  for (const Stretch &stretch : stretches)
    std::fill(stretch.begin, stretch.end, poisonByte);
}

/// The bits of a value that the type can hold.
static uint32_t bitsOf(const abi::ElementType &type, double value) {
  if (!type.isFloating())
    return static_cast<uint32_t>(static_cast<int32_t>(value));
  if (type.exponentBits == abi::elementType(abi::F32).exponentBits)
    return std::bit_cast<uint32_t>(static_cast<float>(value)) >> (32 - 8 * type.bytes);
  uint32_t most = (1u << type.exponentBits) - 1, sign = uint32_t(std::signbit(value)) << (8 * type.bytes - 1);
  if (!std::isfinite(value))
    return sign | most << type.fractionBits | uint32_t(std::isnan(value));
  int bias = int(most / 2), exponent = value == 0 ? -bias : std::max(std::ilogb(value), -bias);
  bool isNormal = exponent > -bias;
  double fraction = std::ldexp(std::abs(value), type.fractionBits - std::max(exponent, 1 - bias));
  return sign | uint32_t(isNormal ? exponent + bias - 1 : 0) * (1u << type.fractionBits) + uint32_t(fraction);
}

void PoisonedMemory::write(int64_t element, const abi::ElementType &type, double value) {
  uint32_t bits = bitsOf(type, value);
  std::memcpy(begin + element * type.bytes, &bits, type.bytes);
}

double PoisonedMemory::read(int64_t element, const abi::ElementType &type) const {
  return abi::readElement(type, begin + element * type.bytes);
}

void PoisonedMemory::remember() {
  for (Stretch &stretch : stretches)
    stretch.before.assign(stretch.begin, stretch.end);
}

std::optional<int64_t> PoisonedMemory::findChange(const std::vector<int64_t> &except, const abi::ElementType &type) {
  for (const Stretch &stretch : stretches) {
    // Restores what may have changed, so that the rest can be compared as a whole.
    std::vector<std::byte> now(stretch.begin, stretch.end);
    auto first = std::ranges::lower_bound(except, (stretch.begin - begin) / int64_t(type.bytes));
    for (; first != except.end() && begin + *first * type.bytes < stretch.end; ++first) {
      int64_t at = begin + *first * type.bytes - stretch.begin;
      std::copy_n(stretch.before.begin() + at, type.bytes, now.begin() + at);
    }
    auto [changed, unchanged] = std::ranges::mismatch(now, stretch.before);
    if (changed != now.end())
      return stretch.begin - begin + (changed - now.begin());
  }
  return std::nullopt;
}

} // namespace dtc::verify
