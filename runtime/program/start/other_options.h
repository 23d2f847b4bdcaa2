// Which command has which option: for messages about an option given to the wrong command.
#pragma once

#include <string>
#include <vector>

namespace dtc {

enum class Command { Compile, Plan, Verify, Run, Program };

/// The options of a command, as written: "--mesh", "-n". Without --help, --version and --json, which mean the same at
/// many. test/e2e/command_line_run_test.py holds them against --help.
const std::vector<std::string> &optionsOf(Command command);

} // namespace dtc
