// dtc: compiles a model and a cluster description into one native program that trains the model on every rank. This is
// the driver; verbs that compile are done by a second executable, so that the others do not load LLVM.
#include "runtime/abi/error.h"
#include "tools/dtc/CommandLine.h"
#include "tools/dtc/Verbs.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace dtc;

/// Beside this executable where both were built, in libexec where they were installed.
static std::string compilerPath() {
  std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::filesystem::path beside = here / "dtc-compile", installed = here.parent_path() / "libexec/dtc/dtc-compile";
  return std::filesystem::exists(beside) ? beside : installed;
}

[[noreturn]] static void becomeCompiler(char **argv) {
  std::string path = compilerPath();
  execv(path.c_str(), argv);
  throw Error(fmt::format("cannot run {}, which compiles: {}; install dtc again", path, std::strerror(errno)));
}

int main(int argc, char **argv) {
  return runCommandLine(argc, argv, [&](CLI::App &app, int &exitCode) {
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
