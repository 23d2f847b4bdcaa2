// toml++, without its assumptions about the text. Its parser asserts that malformed text cannot reach certain places.
// Some texts do ("[{}]", "[[ }"), and are then refused properly. As optimizer hints these assertions would be undefined
// behaviour, as real assertions they would end the process. So they are disabled.
#pragma once

#pragma push_macro("NDEBUG")
#undef NDEBUG // otherwise TOML_ASSERT would not be used
#define TOML_ASSERT(claim) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#include <algorithm>
#include <cassert> // restores the including file's setting
#include <utility>
#include <vector>

namespace dtc {

/// A table's entries in file order, for uses where that matters: toml++ sorts keys.
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
