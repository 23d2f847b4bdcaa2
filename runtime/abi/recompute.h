// What a layer keeps from its forward pass for its backward pass, by the names used in settings and choices.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::abi {

struct Recompute {
  enum class Kind {
    None,      ///< recomputes nothing
    Cheap,     ///< recomputes what is cheap to get from what is kept anyway
    Regather,  ///< recomputes all but the results of products, attention and sums over ranks; gathers run again, too
    Selective, ///< recomputes all but what a layer computes with its weights or gets from other ranks
    Full,      ///< recomputes all but the layer's input
    Offload,   ///< as Cheap; what is kept is stored in the host's memory
    Named,     ///< recomputes all but the layer's input and what `kept` names
  };
  Kind kind = Kind::Cheap;
  int64_t group = 1;                  ///< Full: layers per group; only the input of a group's first layer is kept
  std::vector<std::string> kept = {}; ///< Named: values of the layer, as passes/keep/recompute/ValueNames.h calls them

  bool operator==(const Recompute &) const = default;
};

/// As a setting: dtc chooses what fits into the memory limit.
inline constexpr std::string_view recomputeAuto = "auto";
inline constexpr std::string_view recomputeNames =
    "none, cheap, regather, selective, full, every:K, offload or keep VALUE + VALUE";

/// The names that are one word.
inline constexpr std::pair<std::string_view, Recompute::Kind> recomputeWords[] = {
    {"none", Recompute::Kind::None},         {"cheap", Recompute::Kind::Cheap},
    {"regather", Recompute::Kind::Regather}, {"selective", Recompute::Kind::Selective},
    {"full", Recompute::Kind::Full},         {"offload", Recompute::Kind::Offload},
};

/// "contract attn.c_attn + attention attn": as VALUE + VALUE; nothing where one is empty.
inline std::optional<Recompute> parseKept(std::string_view text) {
  Recompute result{Recompute::Kind::Named};
  while (true) {
    size_t end = text.find('+');
    std::string_view name = text.substr(0, end);
    size_t first = name.find_first_not_of(' ');
    if (first == std::string_view::npos)
      return std::nullopt;
    result.kept.emplace_back(name.substr(first, name.find_last_not_of(' ') - first + 1));
    if (end == std::string_view::npos)
      return result;
    text.remove_prefix(end + 1);
  }
}

/// One of recomputeNames, or "every:K" for groups of K layers; nullopt for any other text.
inline std::optional<Recompute> parseRecompute(std::string_view text) {
  for (const auto &[word, kind] : recomputeWords)
    if (text == word)
      return Recompute{kind};
  constexpr std::string_view every = "every:", keep = "keep ";
  if (text.starts_with(keep))
    return parseKept(text.substr(keep.size()));
  Recompute result{Recompute::Kind::Full};
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
  if (recompute.kind == Recompute::Kind::Full && recompute.group > 1)
    return "every:" + std::to_string(recompute.group);
  for (const auto &[word, kind] : recomputeWords)
    if (recompute.kind == kind)
      return std::string(word);
  std::string names;
  for (const std::string &name : recompute.kept)
    names += (names.empty() ? "keep " : " + ") + name;
  return names;
}

} // namespace dtc::abi
