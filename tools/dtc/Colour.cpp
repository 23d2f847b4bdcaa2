// Colours, where somebody looks.
#include "tools/dtc/Colour.h"

#include <fmt/color.h>

#include <cstdlib>
#include <string_view>
#include <unistd.h>

using namespace dtc;

static std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool dtc::hasColours(std::FILE *stream) {
  std::string_view terminal = variable("TERM");
  return isatty(fileno(stream)) && variable("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
}

static std::string styled(std::FILE *stream, fmt::text_style style, const std::string &text) {
  return hasColours(stream) ? fmt::format(style, "{}", text) : text;
}

std::string dtc::heading(const std::string &text) { return styled(stdout, fmt::emphasis::bold, text); }

std::string dtc::alarm(const std::string &text) {
  return styled(stderr, fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red), text);
}
