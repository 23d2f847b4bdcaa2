// What dtc prints for people.
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

void dtc::sayPainted(const std::string &text, Paint paint) {
  constexpr fmt::terminal_color backgrounds[] = {fmt::terminal_color::blue, fmt::terminal_color::cyan,
                                                 fmt::terminal_color::magenta, fmt::terminal_color::yellow};
  if (paint == Paint::None)
    tell(stdout, text);
  else
    write(stdout,
          fmt::bg(backgrounds[static_cast<size_t>(paint) - 1]) | fmt::fg(fmt::terminal_color::bright_white), text);
}

void dtc::sayError(const std::string &text) {
  constexpr std::string_view who = NewsPrefix,
                             what = ErrorPrefix.substr(who.size(), ErrorPrefix.size() - who.size() - 1);
  tell(stderr, who);
  write(stderr, fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red), std::string(what));
  tell(stderr, " " + text + "\n");
}
