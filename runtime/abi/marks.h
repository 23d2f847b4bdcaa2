// What a command belongs to and what it does, in words.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace dtc::abi {

/// "h.3", as the model calls it.
inline std::string nameOf(const Layer &layer) { return layer.list() + "." + std::to_string(layer.number()); }

/// "?" for a layer that is not in the table.
inline std::string layerName(const Manifest &manifest, uint32_t index) {
  return index < uint32_t(manifest.layers_size()) ? nameOf(manifest.layers(int(index))) : "?";
}

/// The usual name of a direction; empty if it is unknown.
inline std::string_view nameOf(Direction direction) {
  switch (direction) {
  case FORWARD:
    return "forward";
  case INPUT_GRADIENT:
    return "input gradient";
  case WEIGHT_GRADIENT:
    return "weight gradient";
  case UPDATE:
    return "update";
  default:
    return "";
  }
}

/// The names of all classes of work in cluster files and tables, in the order of their numbers.
inline constexpr std::array<std::string_view, 7> ClassNames = {"elementwise", "reduction", "movement",     "indexed",
                                                               "product",     "attention", "communication"};
static_assert(ClassNames.size() == Work::Class_ARRAYSIZE);

/// "product"; "class 99" for an unknown number: a manifest is untrusted input.
inline std::string nameOf(Work::Class kind) {
  return Work::Class_IsValid(kind) ? std::string(ClassNames[kind]) : "class " + std::to_string(static_cast<int>(kind));
}

/// The class of that name, or nullopt.
inline std::optional<Work::Class> findClass(std::string_view name) {
  auto found = std::find(ClassNames.begin(), ClassNames.end(), name);
  return found == ClassNames.end() ? std::nullopt : std::optional(static_cast<Work::Class>(found - ClassNames.begin()));
}

/// The names of all kinds of collectives, in the order of their numbers.
inline constexpr std::array<std::string_view, 5> CollectiveNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                                    "all_to_all", "broadcast"};
static_assert(CollectiveNames.size() == Collective::Kind_ARRAYSIZE);

/// "all_reduce"; "collective 9" for an unknown number.
inline std::string nameOf(Collective::Kind kind) {
  return Collective::Kind_IsValid(kind) ? std::string(CollectiveNames[kind])
                                        : "collective " + std::to_string(static_cast<int>(kind));
}

} // namespace dtc::abi
