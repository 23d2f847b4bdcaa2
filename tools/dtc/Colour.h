// What dtc prints for people. All of it goes through here, because names come from files: control characters are
// escaped. Only our own code sets colours, and only where the terminal has them and NO_COLOR is not set (no-color.org).
#pragma once

#include "runtime/support/log_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace dtc {

/// Whether a stream shows colours: it is a terminal, TERM is neither "dumb" nor empty, and NO_COLOR is unset or empty.
bool hasColours(std::FILE *stream);

/// Writes to the standard output.
template <typename... T> void say(fmt::format_string<T...> text, T &&...values) {
  tell(stdout, fmt::format(text, std::forward<T>(values)...));
}

/// The same in bold, where there are colours.
void sayHeading(const std::string &text);

/// The background colour of a text, where there are colours.
enum class Paint { None, Blue, Cyan, Magenta, Yellow };

/// Writes to the standard output, on a coloured background where there are colours.
void sayPainted(const std::string &text, Paint paint);

/// tellError, with its second word in red where there are colours.
void sayError(const std::string &text);

} // namespace dtc
