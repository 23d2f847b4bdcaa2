// How deep a JSON text nests, counted before it is parsed: parsers and code that walks their documents recurse once per
// level, so a text nested thousands deep would crash the process.
#pragma once

#include <cstddef>
#include <string_view>

namespace dtc {

/// Levels of objects and arrays that a JSON text may have. Files of models have fewer than ten.
inline constexpr size_t jsonNestingLimit = 100;

/// Whether some value of a JSON text is nested in more than `limit` objects and arrays. Brackets in strings do not
/// count. The text need not be valid: the parser reports errors.
inline bool jsonNestsDeeper(std::string_view text, size_t limit = jsonNestingLimit) {
  size_t depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString && c == '\\')
      ++i; // skips the escaped character
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '{' || c == '[')) {
      if (++depth > limit)
        return true;
    } else if (!inString && (c == '}' || c == ']') && depth > 0)
      --depth;
  }
  return false;
}

} // namespace dtc
