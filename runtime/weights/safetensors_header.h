// Parsing and checking a safetensors header. Separate from file access so that it can be fuzzed on bytes alone.
#pragma once

#include "runtime/weights/safetensors.h"

namespace dtc {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries; ///< in order of their bytes
  std::map<std::string, std::string> metadata;
  uint64_t dataBegin = 0;
};

/// `bytes` is the whole file; `path` is for messages. Throws Error (BadInput).
SafetensorsHeader parseSafetensorsHeader(std::span<const std::byte> bytes, const std::string &path);

/// Bytes of one element of a type of the format; 0 for an unknown one.
uint64_t safetensorsTypeBytes(std::string_view type);

} // namespace dtc
