// What to type instead where a word was given to the wrong verb: an option of another verb, or a model where a program
// is expected.
#pragma once

#include "runtime/program/start/command_line.h"

#include <string>
#include <vector>

namespace dtc {

/// Options that `verb` lacks and another command has, with the command to type instead.
std::vector<OtherOptions> optionsElsewhere(const std::string &verb, int argc, char **argv);

/// Throws Error (BadInput) where the path of a program leads to a model or another directory. `verb` as typed:
/// "inspect".
void requireNoModel(const std::string &path, const std::string &verb);

/// A name for a program of this model: the last part of the model's path, and ".train".
std::string programNameFor(const std::string &model);

/// A word as a shell reads it: quoted where necessary.
std::string shellWord(const std::string &word);

} // namespace dtc
