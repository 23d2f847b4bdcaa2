// dtc run: starts the ranks of a program on this machine.
#include "runtime/launch/supervisor.h"
#include "tools/dtc/Verbs.h"

#include <filesystem>

using namespace dtc;

namespace {

struct RunOptions {
  int ranks = 1;
  std::vector<std::string> command;
};

/// A program is a file, never a name to look up in PATH.
std::vector<std::string> asPath(std::vector<std::string> command) {
  if (command.front().find('/') == std::string::npos)
    command.front() = "./" + command.front();
  return command;
}

} // namespace

void dtc::addRun(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *verb = app.add_subcommand("run", "Run a program on local ranks and look after them: when one fails, the "
                                             "others stop.");
  verb->footer("\n  dtc run -n 4 gpt --data book.bin\n"
               "  dtc run -n 4 gpt --data book.bin --resume checkpoints/latest\n"
               "  ./gpt --help    what follows PROGRAM is the program's own\n");
  verb->add_option("-n,--ranks", options->ranks, "Processes to start; the program's mesh says how many it needs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("PROGRAM", options->command, "The program, then its own arguments")->required();
  verb->prefix_command();
  verb->callback([options, verb, &exitCode] {
    std::vector<std::string> command = asPath(options->command);
    for (const std::string &argument : verb->remaining())
      command.push_back(argument);
    exitCode = superviseRanks({.command = command, .ranks = options->ranks});
  });
}
