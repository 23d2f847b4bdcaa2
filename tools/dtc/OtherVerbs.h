// What to type where something stands at the wrong verb: an option of another one, or a model where a program is
// expected.
#pragma once

#include "runtime/program/start/command_line.h"

#include <string>
#include <vector>

namespace dtc {

/// Options that `verb` lacks and another command has, with what to type instead of the words of the command line.
std::vector<OtherOptions> optionsElsewhere(const std::string &verb, int argc, char **argv);

/// Throws Error (BadInput) where the path of a program leads to a model or another directory. `verb` as typed:
/// "inspect".
void requireNoModel(const std::string &path, const std::string &verb);

/// A word as a shell takes it: in quotes where it needs them.
std::string shellWord(const std::string &word);

} // namespace dtc
