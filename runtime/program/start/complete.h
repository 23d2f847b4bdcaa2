// What a shell offers to complete a word of a command line. It comes from the description of the command line itself,
// so it is never out of date. The shells' own files (tools/dtc/completion) only ask and show.
#pragma once

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

namespace dtc {

/// The first argument by which a shell asks: "dtc __complete compile --st" wants words for "--st", the last one.
inline constexpr const char *CompletionVerb = "__complete";

/// A line of the answer: the names of files too.
inline constexpr const char *AlsoFiles = ":files";

/// Values of options by the options' names: for those whose check does not list them. AlsoFiles among them: these
/// are not all.
using KnownValues = std::map<std::string, std::vector<std::string>>;

/// The candidates for the last of `words`, one a line, each with a tab and its description where it has one. AlsoFiles
/// is a line of its own.
std::string completions(const CLI::App &app, const std::vector<std::string> &words, const KnownValues &values);

/// The words behind `verb` in a command line: behind the options that it knows. The first is what the verb works on,
/// with its own arguments behind. Empty where the options are not over yet.
std::vector<std::string> behindOptions(const CLI::App &verb, const std::vector<std::string> &words);

} // namespace dtc
