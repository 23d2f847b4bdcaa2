// dtc-compile: the verbs of dtc that compile. dtc starts it with its own command line.
#include "tools/dtc/CommandLine.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/Verbs.h"

using namespace dtc;

int main(int argc, char **argv) {
  return runCommandLine(argc, argv, dtcVersion(), [](CLI::App &app, int &exitCode) {
    addCompile(app);
    addRemedies(app);
    addVerify(app, exitCode);
  });
}
