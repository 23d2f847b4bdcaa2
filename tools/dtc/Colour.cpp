// What dtc tells people.
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

static void write(std::FILE *stream, fmt::text_style style, const std::string &text) {
  std::string safe = escaped(text);
  std::fputs((hasColours(stream) ? fmt::format(style, "{}", safe) : safe).c_str(), stream);
}

void dtc::sayHeading(const std::string &text) { write(stdout, fmt::emphasis::bold, text); }

void dtc::sayProblem(const std::string &text) { tell(stderr, "dtc: " + text + "\n"); }

void dtc::sayError(const std::string &text) {
  tell(stderr, "dtc: ");
  write(stderr, fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red), "error:");
  tell(stderr, " " + text + "\n");
}
