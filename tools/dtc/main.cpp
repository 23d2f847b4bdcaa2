// dtc: compiles a model and a cluster description into one native program that trains the model on every rank. This is
// the driver; a second executable runs the verbs that compile, so that the others do not load LLVM.
#include "tools/dtc/CommandLine.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/Verbs.h"

using namespace dtc;

static bool isDoneByTheCompiler(const std::string &verb) { return verb == "compile" || verb == "plan" || verb == "verify"; }

/// A shell asks how to complete a command line. Verbs that compile answer for themselves, and so do programs.
static void letOthersComplete(const CLI::App &app, int argc, char **argv) {
  std::string verb = argc > 3 ? argv[2] : "";
  if (isDoneByTheCompiler(verb))
    becomeCompiler(argv);
  if (verb != "run" && verb != "balance")
    return;
  std::vector<std::string> words(argv + 3, argv + argc), program = behindOptions(*app.get_subcommand(verb), words);
  if (program.size() > 1)
    completeForProgram({program.begin() + 1, program.end()});
}

int main(int argc, char **argv) {
  return runCommandLine(argc, argv, dtcVersion(), [&](CLI::App &app, int &exitCode) {
    std::string verb = argc > 1 ? argv[1] : "";
    if (isDoneByTheCompiler(verb))
      becomeCompiler(argv); // with its --help
    addData(app);
    addCalibrate(app);
    addSimulate(app, exitCode);
    addSchedule(app);
    app.add_subcommand("plan", planSummary);
    app.add_subcommand("compile", compileSummary);
    addTune(app);
    addRun(app, exitCode);
    addBalance(app, exitCode);
    addEval(app, exitCode);
    addSample(app, exitCode);
    app.add_subcommand("verify", verifySummary);
    addInspect(app);
    addExplain(app);
    addReport(app);
    addExport(app);
    if (verb == CompletionVerb)
      letOthersComplete(app, argc, argv);
  });
}
