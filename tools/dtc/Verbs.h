// The verbs of the driver, one file each. A function adds its verb to the command line; the verb's work runs from the
// callback once everything is parsed, and ends by an exit code or an Error.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>

namespace dtc {

/// `exitCode` receives what a verb ends with when that is not success.
void addCompile(CLI::App &app);
void addData(CLI::App &app);
void addExplain(CLI::App &app);
void addInspect(CLI::App &app);
void addRun(CLI::App &app, int &exitCode);
void addVerify(CLI::App &app, int &exitCode);

} // namespace dtc
