// What dtc tells people. Names come from files, so everything goes through here: control characters are written out,
// and only we move colours: on a terminal that has them, and not when NO_COLOR is set (no-color.org).
#pragma once

#include "runtime/support/log_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace dtc {

/// Whether a stream shows colours: a terminal, TERM neither "dumb" nor empty, NO_COLOR unset or empty.
bool hasColours(std::FILE *stream);

/// Writes to the standard output.
template <typename... T> void say(fmt::format_string<T...> text, T &&...values) {
  tell(stdout, fmt::format(text, std::forward<T>(values)...));
}

/// The same in bold, where there are colours.
void sayHeading(const std::string &text);

/// What text stands on, where there are colours.
enum class Paint { None, Blue, Cyan, Magenta, Yellow };

/// Writes to the standard output, on a coloured background where there are colours.
void sayPainted(const std::string &text, Paint paint);

/// tellError, with its second word in red where there are colours.
void sayError(const std::string &text);

} // namespace dtc
