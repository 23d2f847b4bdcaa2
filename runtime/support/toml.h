// toml++, without its assumptions about the text. Its parser claims of some places that no malformed text can lead
// there; some do ("[{}]", "[[ }"), and are then refused in good order. As promises to the optimizer these claims are
// undefined behaviour, as assertions they would end the process. So they are neither.
#pragma once

#pragma push_macro("NDEBUG")
#undef NDEBUG // or TOML_ASSERT would not be asked
#define TOML_ASSERT(claim) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#include <algorithm>
#include <cassert> // as this file's reader wants it
#include <utility>
#include <vector>

namespace dtc {

/// A table's entries in the order of the file, where that counts: toml++ sorts keys.
inline std::vector<std::pair<const toml::key *, const toml::node *>> inFileOrder(const toml::table &table) {
  std::vector<std::pair<const toml::key *, const toml::node *>> entries; // keys are distinct places
  for (auto &&[key, value] : table)
    entries.push_back({&key, &value});
  std::ranges::sort(entries, {}, [](const auto &entry) {
    const toml::source_position &begin = entry.first->source().begin;
    return std::pair(begin.line, begin.column);
  });
  return entries;
}

} // namespace dtc
