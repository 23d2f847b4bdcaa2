// dtc run: starts the ranks of a program on this machine.
#include "runtime/comm/mesh.h"
#include "runtime/launch/supervisor.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <chrono>
#include <cmath>

using namespace dtc;

/// A program is a file, never a name to look up in PATH.
static std::vector<std::string> asPath(std::vector<std::string> command) {
  if (command.front().find('/') == std::string::npos)
    command.front() = "./" + command.front();
  return command;
}

void dtc::addRun(CLI::App &app, int &exitCode) {
  auto ranks = std::make_shared<int>(0);
  auto shareGpu = std::make_shared<bool>(false);
  auto grace = std::make_shared<double>(120);
  CLI::App *verb = app.add_subcommand("run", "Run a program on local ranks and look after them: when one fails, the "
                                             "others stop.");
  verb->footer("\n  dtc run [-n RANKS] [--share-gpu] PROGRAM [ARGUMENTS of the program]\n\n"
               "  dtc run gpt --data book.bin\n"
               "  dtc run -n 4 gpt --data book.bin --resume dtc-out\n"
               "  dtc run gpt --help      what follows PROGRAM is the program's own\n");
  verb->add_option("-n,--ranks", *ranks, "Processes to start; by default as many as the program's mesh has ranks")
      ->check(CLI::PositiveNumber);
  verb->add_option("--grace", *grace,
                   "Seconds that ranks have for a checkpoint after SIGINT, SIGTERM or SIGHUP before they are killed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  verb->add_flag("--share-gpu", *shareGpu,
                 "Let several ranks of a program for GPUs work on one, to try a layout; for speed, one each");
  verb->prefix_command(); // from the first word that is not ours on, nothing is
  verb->callback([ranks, grace, shareGpu, verb, &exitCode] {
    if (verb->remaining().empty())
      throw CLI::RequiredError("PROGRAM");
    if (verb->remaining().front().empty())
      throw CLI::ValidationError("PROGRAM", "the value is empty; is a variable not set?");
    if (verb->remaining().front().starts_with('-'))
      throw CLI::ExtrasError({verb->remaining().front()});
    std::vector<std::string> command = asPath(verb->remaining());
    if (*shareGpu)
      command.insert(command.begin() + 1, "--share-gpu");
    // Reads the whole program, so that a damaged one is refused by code that is not in it.
    int compiled = Mesh(readManifest(command.front()).mesh()).ranks();
    exitCode = superviseRanks({.command = command,
                               .ranks = *ranks ? *ranks : compiled,
                               .stopGrace = std::chrono::milliseconds(std::llround(*grace * 1000))});
  });
}
