// How many bytes of collectives share one start, as users write it: "25MB", "auto" or "none".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtc::abi {

struct BucketSize {
  enum class Kind {
    None, ///< each collective has its own start
    Auto, ///< chosen by cost
    Bytes ///< as many as fit into `bytes`
  };
  Kind kind = Kind::None;
  uint64_t bytes = 0; ///< for Bytes; at least 1
  bool operator==(const BucketSize &) const = default;
};

/// The text of a size, with bytes in the largest unit that divides them.
inline std::string textOf(const BucketSize &size) {
  if (size.kind != BucketSize::Kind::Bytes)
    return size.kind == BucketSize::Kind::Auto ? "auto" : "none";
  constexpr std::string_view units[] = {"GB", "MB", "KB"};
  uint64_t unit = 1'000'000'000;
  for (std::string_view name : units) {
    if (size.bytes % unit == 0)
      return std::to_string(size.bytes / unit) + std::string(name);
    unit /= 1000;
  }
  return std::to_string(size.bytes);
}

/// Nullopt if the text is not a size. KB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024, as for
/// --memory-limit.
inline std::optional<BucketSize> parseBucketSize(std::string_view text) {
  if (text == "auto" || text == "none")
    return BucketSize{text == "auto" ? BucketSize::Kind::Auto : BucketSize::Kind::None, 0};
  uint64_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc())
    return std::nullopt;
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr std::string_view names[] = {"", "K", "M", "G"};
  uint64_t thousands = 1, binary = 1;
  for (std::string_view name : names) {
    bool isBinary = !name.empty() && unit == std::string(name) + "iB";
    if (isBinary || unit == name || unit == std::string(name) + "B") {
      uint64_t factor = isBinary ? binary : thousands;
      if (count == 0 || count > (uint64_t(1) << 60) / factor)
        return std::nullopt;
      return BucketSize{BucketSize::Kind::Bytes, count * factor};
    }
    thousands *= 1000;
    binary *= 1024;
  }
  return std::nullopt;
}

} // namespace dtc::abi
