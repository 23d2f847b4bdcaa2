// dtc: compiles a model and a cluster description into one native program that trains the model on every rank. This is
// the driver; verbs that compile are done by a second executable, so that the others do not load LLVM.
#include "tools/dtc/CommandLine.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/Verbs.h"

using namespace dtc;

int main(int argc, char **argv) {
  return runCommandLine(argc, argv, dtcVersion(), [&](CLI::App &app, int &exitCode) {
    std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "compile" || verb == "verify")
      becomeCompiler(argv); // with its --help
    addData(app);
    app.add_subcommand("compile", compileSummary);
    addRun(app, exitCode);
    app.add_subcommand("verify", verifySummary);
    addInspect(app);
    addExplain(app);
  });
}
