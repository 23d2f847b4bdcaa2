// What a command belongs to, in words.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <string_view>

namespace dtc::abi {

/// "h.3", as the model calls it.
inline std::string nameOf(const Layer &layer) { return layer.list() + "." + std::to_string(layer.number()); }

/// "?" for one that the table does not have.
inline std::string layerName(const Manifest &manifest, uint32_t index) {
  return index < uint32_t(manifest.layers_size()) ? nameOf(manifest.layers(int(index))) : "?";
}

/// As the field says it; empty where it is unknown.
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

} // namespace dtc::abi
