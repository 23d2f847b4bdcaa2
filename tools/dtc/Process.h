// Other processes whose output dtc reads.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// Runs a command to its end and passes on each line that it prints, as it comes; `withErrors`: those of the standard
/// error, too. Once `line` returns false, the command is asked to end (SIGTERM); its last lines are still passed on.
/// Ctrl-C is left to the command meanwhile. Returns its exit code, 128 + n where signal n ended it. Throws Error
/// (Runtime) where it cannot be started.
int runProcess(std::vector<std::string> command, const std::function<bool(const std::string &)> &line,
               bool withErrors = false);

/// Runs a command to its end; `said` is all that it prints, on the standard error, too.
int runProcess(std::vector<std::string> command, std::string &said);

} // namespace dtc
