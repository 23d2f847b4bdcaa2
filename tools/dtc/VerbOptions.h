// Forms of options that several verbs have.
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

/// Adds options that the verb only hands on to another command, and returns them in their order. `words` receives the
/// name and then the value of each that is given.
std::vector<CLI::Option *> handOn(CLI::App &verb, std::vector<std::string> &words, NamedOptions options);

/// Likewise; `values` receives the value by the name.
std::vector<CLI::Option *> handOn(CLI::App &verb, std::map<std::string, std::string> &values, NamedOptions options);

/// Lets an option be given several times, each time with one value, which help calls `type`.
CLI::Option *takeRepeated(CLI::Option *option, const char *type);

/// Accepts a finite number above 0.
CLI::Validator positiveNumber();

} // namespace dtc
