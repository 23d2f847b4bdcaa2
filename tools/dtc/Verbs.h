// The verbs of the driver, one file each. A function adds its verb to the command line; the verb's work runs from the
// callback once everything is parsed, and ends by an exit code or an Error.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

/// For the list of verbs, which the driver prints, and for each verb's own help, which the compiler prints.
inline constexpr const char *compileSummary = "Compile a model for a mesh into one program that every rank runs.";
inline constexpr const char *planSummary =
    "Find the mesh, strategy, timetable and recomputation with which a model trains fastest on a cluster, and say why.";
inline constexpr const char *verifySummary =
    "Check a compilation: one step of the logical program against the command lists of all ranks, in f64; of a model "
    "with shrunk sizes, or of a program as it is.";

/// Adds a verb, and options for its callback to keep. Without a footer it has the one of all verbs.
template <class Options>
std::pair<CLI::App *, std::shared_ptr<Options>> addVerb(CLI::App &app, const char *name, const char *summary,
                                                        const char *footer = nullptr) {
  CLI::App *verb = app.add_subcommand(name, summary);
  if (footer)
    verb->footer(footer);
  return {verb, std::make_shared<Options>()};
}

/// `exitCode` receives what a verb ends with when that is not success.
void addAccumulation(CLI::App &app);
void addBalance(CLI::App &app, int &exitCode);
void addCalibrate(CLI::App &app);
void addCompile(CLI::App &app);
void addData(CLI::App &app);
void addEval(CLI::App &app, int &exitCode);
void addExplain(CLI::App &app);
void addExport(CLI::App &app);
void addInspect(CLI::App &app);
void addPlan(CLI::App &app);
void addRebalance(CLI::App &app);
void addRemedies(CLI::App &app);
void addReport(CLI::App &app);
void addRun(CLI::App &app, int &exitCode);
void addSample(CLI::App &app, int &exitCode);
void addSchedule(CLI::App &app);
void addSimulate(CLI::App &app, int &exitCode);
void addTune(CLI::App &app);
void addVariants(CLI::App &app);
void addVerify(CLI::App &app, int &exitCode);

/// What `dtc run` does with a program and its arguments, on as many local ranks as the program's mesh has. Returns the
/// exit code.
int runHere(std::vector<std::string> command);

} // namespace dtc
