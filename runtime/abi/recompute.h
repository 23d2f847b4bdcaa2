// What of a layer's forward pass is kept for its backward pass, by name: what settings and choices may say.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtc::abi {

struct Recompute {
  enum class Kind {
    None,      ///< nothing is computed again
    Cheap,     ///< what is cheap to make of what is kept anyway
    Selective, ///< all but what a layer makes of its weights or gets from other ranks
    Full,      ///< all but the layer's input
    Offload,   ///< as Cheap; what is kept waits in the host's memory
  };
  Kind kind = Kind::Cheap;
  int64_t group = 1; ///< Full: so many layers together, of which the first one's input is kept

  bool operator==(const Recompute &) const = default;
};

/// As a setting: what fits into the memory limit is chosen.
inline constexpr std::string_view recomputeAuto = "auto";
inline constexpr std::string_view recomputeNames = "none, cheap, selective, full, every:K or offload";

/// "none", "cheap", "selective", "full", "offload", or "every:K" for groups of K layers; nothing for any other text.
inline std::optional<Recompute> parseRecompute(std::string_view text) {
  using Kind = Recompute::Kind;
  if (text == "none")
    return Recompute{Kind::None};
  if (text == "cheap")
    return Recompute{Kind::Cheap};
  if (text == "selective")
    return Recompute{Kind::Selective};
  if (text == "full")
    return Recompute{Kind::Full};
  if (text == "offload")
    return Recompute{Kind::Offload};
  constexpr std::string_view every = "every:";
  Recompute result{Kind::Full};
  if (!text.starts_with(every))
    return std::nullopt;
  std::string_view number = text.substr(every.size());
  auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), result.group);
  if (problem != std::errc() || end != number.data() + number.size() || result.group < 1)
    return std::nullopt;
  return result;
}

/// The text that parseRecompute reads.
inline std::string nameOf(const Recompute &recompute) {
  switch (recompute.kind) {
  case Recompute::Kind::None:
    return "none";
  case Recompute::Kind::Cheap:
    return "cheap";
  case Recompute::Kind::Selective:
    return "selective";
  case Recompute::Kind::Offload:
    return "offload";
  case Recompute::Kind::Full:
    return recompute.group > 1 ? "every:" + std::to_string(recompute.group) : "full";
  }
  return "";
}

} // namespace dtc::abi
