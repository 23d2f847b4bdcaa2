// Names come from files: showing them must not move a terminal's cursor or change its colours.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace dtc {

/// The text with control characters written out, as in "\x1b[2J": all below space and DEL but newline and tab, and
/// those of UTF-8 from U+0080 to U+009F, which some terminals obey too.
inline std::string escaped(std::string_view text) {
  constexpr const char *digits = "0123456789abcdef";
  std::string result;
  auto writeOut = [&](unsigned char c) { result += {'\\', 'x', digits[c >> 4], digits[c & 15]}; };
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      writeOut(c);
      writeOut(next);
      ++i;
    } else if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
      writeOut(c);
    } else {
      result += text[i];
    }
  }
  return result;
}

/// Writes a text for people, its control characters written out. What cannot be written is dropped.
inline void tell(std::FILE *stream, std::string_view text) { std::fputs(escaped(text).c_str(), stream); }

} // namespace dtc
