// Command-line checks shared by dtc and compiled programs: which words are refused, and with what message.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// Makes errors of what CLI11 takes for any option or argument of `app` and its verbs: an empty value, which comes from
/// a variable that is not set and names no file, folder or choice, and a number that is not finite or does not fit. To
/// be called when all are added.
void checkValues(CLI::App &app);

/// Parses a text that is exactly one whole number; false if it is not one or does not fit.
bool parseWhole(std::string_view text, int64_t &value);

/// Refuses whole numbers below `least`.
CLI::Validator atLeast(int64_t least);

/// Converts a size such as 16GB (of 1000) or 512MiB (of 1024) to bytes, and refuses anything else.
void takeSize(CLI::Option *option);

/// Options that `app` lacks and another command has, and the advice to a user who gives one here.
struct OtherOptions {
  std::vector<std::string> names;
  std::string advice; ///< "is ..."
};

/// What CLI11 says of a wrong command line, with the nearest verb or option where a word is unknown, or what one of
/// `others` says of it.
std::string usageProblem(const CLI::App &app, const CLI::ParseError &error, int argc, char **argv,
                         const std::vector<OtherOptions> &others = {});

/// The verb that the command line chose, as a user writes it: "dtc data pack".
std::string chosenVerb(const CLI::App &app);

} // namespace dtc
