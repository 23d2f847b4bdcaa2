// Options that a verb takes only to hand them on to another command, as they were given.
#pragma once

#include <CLI/CLI.hpp>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

/// Names of options, each with its help.
using NamedOptions = std::initializer_list<std::pair<std::string, const char *>>;

/// Adds them, and returns them in their order. `words` receives the name and then the value of each that is given.
std::vector<CLI::Option *> handOn(CLI::App &verb, std::vector<std::string> &words, NamedOptions options);

/// Likewise; `values` receives the value by the name.
std::vector<CLI::Option *> handOn(CLI::App &verb, std::map<std::string, std::string> &values, NamedOptions options);

} // namespace dtc
