// Limits on TOML texts, checked before parsing: toml++ bounds the nesting of brackets but not of dotted keys and
// section names, and destroys the resulting tables recursively, so a file of a few kilobytes could crash the process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

/// Settings and strategies need two or three levels.
struct TomlLimits {
  static constexpr size_t Bytes = 1 << 20;
  static constexpr int KeyParts = 16; ///< of one dotted key or section name
  static constexpr int Nesting = 16;  ///< of brackets and braces
};

/// What exceeds the limits in a text, and in which line (from 1).
struct TomlExcess {
  size_t line;
  std::string problem;
};

namespace detail {

/// Reads a text as a sequence of tokens: just enough to know what is quoted, commented or nested.
class TomlScanner {
public:
  explicit TomlScanner(std::string_view text) : text(text) {}

  std::optional<TomlExcess> scan() {
    if (text.size() > TomlLimits::Bytes)
      return TomlExcess{1, "the file has " + std::to_string(text.size()) + " bytes; at most " +
                               std::to_string(TomlLimits::Bytes) + " are accepted"};
    for (; at < text.size(); ++at) {
      step(text[at]);
      if (parts > TomlLimits::KeyParts)
        return TomlExcess{line, "a dotted key has more than " + std::to_string(TomlLimits::KeyParts) + " parts"};
      if (depth > TomlLimits::Nesting)
        return TomlExcess{line, "brackets are nested more than " + std::to_string(TomlLimits::Nesting) + " deep"};
    }
    return std::nullopt;
  }

private:
  /// Handles the token that begins with `c`; `at` is left on its last character.
  void step(char c) {
    switch (c) {
    case '"':
    case '\'':
      return skipString(c);
    case '#':
      at = std::min(text.find('\n', at), text.size()) - 1;
      return;
    case '.':
      ++parts;
      return;
    case '[':
    case '{':
      ++depth;
      break;
    case ']':
    case '}':
      depth = std::max(0, depth - 1);
      break;
    case '\n':
      ++line;
      break;
    case '=':
    case ',':
      break;
    default: // part of a key, or space around a dot
      return;
    }
    parts = 1;
  }

  void skipString(char quote) {
    std::string_view three = quote == '"' ? "\"\"\"" : "'''";
    bool multiline = text.substr(at, 3) == three;
    at += multiline ? 3 : 1;
    for (; at < text.size(); ++at) {
      if (text[at] == '\n') {
        ++line;
        if (!multiline)
          return; // the parser will report it
      } else if (text[at] == '\\' && quote == '"') {
        ++at;
        line += at < text.size() && text[at] == '\n';
      } else if (multiline ? text.substr(at, 3) == three : text[at] == quote) {
        break;
      }
    }
    // Up to two quotes may stand before the three that end a string of several lines.
    for (at += multiline ? 2 : 0; multiline && at + 1 < text.size() && text[at + 1] == quote;)
      ++at;
  }

  std::string_view text;
  size_t at = 0, line = 1;
  int parts = 1, depth = 0;
};

} // namespace detail

inline std::optional<TomlExcess> findTomlExcess(std::string_view text) { return detail::TomlScanner(text).scan(); }

} // namespace dtc
