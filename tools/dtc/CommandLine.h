// The frame of dtc's command line: errors, exit codes and suggestions are the same for all verbs.
#pragma once

#include "runtime/program/start/complete.h"

#include <CLI/CLI.hpp>

#include <functional>

namespace dtc {

/// Creates the application, which answers --version with `version`, lets `addVerbs` add verbs to it, then parses and
/// runs. Returns the exit code: what a verb wrote to the second argument of `addVerbs`, or that of the error, which has
/// been reported. `values` are offered to a shell that completes a word.
int runCommandLine(int argc, char **argv, const std::string &version,
                   const std::function<void(CLI::App &, int &exitCode)> &addVerbs, const KnownValues &values = {});

} // namespace dtc
