// Colours, where somebody looks: on a terminal that has them, and not when NO_COLOR is set (no-color.org).
#pragma once

#include <cstdio>
#include <string>

namespace dtc {

/// Whether a stream shows colours: a terminal, TERM neither "dumb" nor empty, NO_COLOR unset or empty.
bool hasColours(std::FILE *stream);

/// `text` in bold on the standard output, where it has colours.
std::string heading(const std::string &text);

/// `text` in bold red on the standard error, where it has colours.
std::string alarm(const std::string &text);

} // namespace dtc
