// What is checked in a module's text before MLIR's parser sees it.
#include "frontends/text/Nesting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

using namespace dtc;

static constexpr size_t nestingLimit = 100; // a model as dtc prints it has fewer than ten levels
static constexpr size_t digitsLimit = 40;   // the parser's time grows with the square of a number's length, or worse

namespace {

/// Reads a text token by token, as far as needed for nesting.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  std::string scan() {
    while (at < text.size() && problem.empty())
      step();
    return problem;
  }

private:
  void step() {
    char c = text[at];
    if (c == '\n')
      ++line;
    if (text.substr(at, 2) == "//")
      at = std::min(text.find('\n', at), text.size());
    else if (c == '"')
      skipString();
    else if (text.substr(at, 2) == "->")
      at += 2; // an arrow, no bracket
    else if (c == '#' || c == '!')
      readAlias();
    else if (isWord(c))
      readWord();
    else
      countBracket(c);
  }

  static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

  std::string_view takeWord() {
    size_t begin = at;
    while (at < text.size() && isWord(text[at]))
      ++at;
    return text.substr(begin, at - begin);
  }

  void skipString() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\';
    at += at < text.size() && text[at] == '"';
  }

  void readWord() {
    std::string_view word = takeWord();
    if (word == "affine_map" || word == "affine_set")
      problem = fmt::format("line {}: {} is no part of a model; remove it", line, word);
    size_t digits = 0;
    for (char c : word)
      if (digits = std::isdigit(static_cast<unsigned char>(c)) ? digits + 1 : 0; digits > digitsLimit)
        problem = fmt::format("line {}: a number of more than {} digits", line, digitsLimit);
  }

  void readAlias() {
    size_t begin = at++;
    takeWord();
    std::string_view name = text.substr(begin, at - begin);
    size_t next = std::min(text.find_first_not_of(" \t", at), text.size());
    if (depth == 0 && text.substr(next, 1) == "=")
      defined = &aliasDepths[name];
    else if (auto found = aliasDepths.find(name); found != aliasDepths.end())
      reach(depth + found->second);
  }

  void countBracket(char c) {
    ++at;
    if (c == '(' || c == '[' || c == '{' || c == '<')
      reach(++depth);
    else if ((c == ')' || c == ']' || c == '}' || c == '>') && depth > 0)
      --depth;
  }

  void reach(size_t levels) {
    if (levels > nestingLimit)
      problem = fmt::format("line {}: nests more than {} levels deep, which no model does", line, nestingLimit);
    else if (defined)
      *defined = std::max(*defined, levels + 1);
  }

  std::string_view text;
  size_t at = 0, line = 1, depth = 0;
  std::map<std::string_view, size_t> aliasDepths; ///< levels within what each alias stands for
  size_t *defined = nullptr;                      ///< of the alias whose definition was the last to begin
  std::string problem;
};

} // namespace

std::string dtc::text::findExcess(std::string_view text) { return Scanner(text).scan(); }
