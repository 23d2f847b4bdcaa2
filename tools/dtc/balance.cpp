// dtc balance: cuts the pipeline of a run again by what the run measured, and goes on with it.
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "runtime/support/standard_files.h"
#include "runtime/support/write_error.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/report/RunFolder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

using namespace dtc;

static constexpr const char *balanceFooter =
    "\nWrite dtc balance [--run OUT] PROGRAM [ARGUMENTS of the program]: the words of the 'dtc run' that trained, with "
    "what\nfollows PROGRAM as it was. Some of the run's steps must have been traced (--trace 3-5), and the run must "
    "have "
    "stopped.\nWhere its cut is within 5% of the best one, nothing is done.\n\n"
    "Examples:\n"
    "  $ dtc run gpt --data book.bin --trace 3-5            # stopped by Ctrl-C, with a checkpoint\n"
    "  $ dtc balance gpt --data book.bin                    # other stages; goes on from the checkpoint\n"
    "  $ dtc balance --run long-run -o gpt.even gpt --data book.bin --threads 1\n";

namespace {

struct BalanceOptions {
  std::string run, output;
  std::vector<std::string> launch;  ///< options of `dtc run`
  std::vector<std::string> command; ///< the program, and its arguments
};

/// The value of an option among a program's arguments, written in either way; empty if it is not there.
std::string valueIn(const std::vector<std::string> &command, const std::string &option) {
  std::string value;
  for (size_t at = 1; at < command.size(); ++at) {
    if (command[at] == option && at + 1 < command.size())
      value = command[at + 1];
    else if (command[at].starts_with(option + "="))
      value = command[at].substr(option.size() + 1);
  }
  return value;
}

void requireWords(const CLI::App &verb, const BalanceOptions &options) {
  if (options.command.empty())
    throw CLI::RequiredError("PROGRAM");
  if (options.command.front().empty())
    throw CLI::ValidationError("PROGRAM", "the value is empty; is a variable not set?");
  if (options.command.front().starts_with('-'))
    throw CLI::ExtrasError({options.command.front()});
  for (size_t at = 1; at < options.command.size(); ++at)
    if (std::string word = options.command[at].substr(0, options.command[at].find('='));
        word.starts_with('-') && verb.get_option_no_throw(word))
      throw CLI::ValidationError(word, "goes before the program: dtc balance OPTIONS PROGRAM ARGUMENTS");
  if (!valueIn(options.command, "--resume").empty())
    throw CLI::ValidationError("--resume", "'dtc balance' goes on from the newest checkpoint of --run; leave it out");
  if (valueIn(options.command, "--data").empty())
    throw CLI::RequiredError("--data, which goes after PROGRAM,");
}

/// That the run can be gone on with.
void requireStopped(const std::string &path) {
  RunFolder run = RunFolder::read(path);
  if (run.isGoingOn)
    throw Error(ExitCode::BadInput, fmt::format("'{}': the run is still going on; stop it by Ctrl-C or SIGTERM, which "
                                                "writes a checkpoint, and balance it then",
                                                path));
  if (!run.checkpoint)
    throw Error(ExitCode::BadInput,
                fmt::format("'{}': the run has no checkpoint to go on from; write one (checkpoint_every), or compile "
                            "for a new run with dtc compile MODEL --profile {}",
                            path, shellWord(path)));
}

/// Replaces this process by the run.
[[noreturn]] void becomeRun(const BalanceOptions &options) {
  std::vector<std::string> words = {"/proc/self/exe", "run"};
  words.insert(words.end(), options.launch.begin(), options.launch.end());
  words.push_back(options.output);
  words.insert(words.end(), options.command.begin() + 1, options.command.end());
  if (valueIn(options.command, "--out").empty())
    words.insert(words.end(), {"--out", options.run});
  words.insert(words.end(), {"--resume", options.run});
  requirePrinted();
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  throw Error(fmt::format("cannot run dtc again: {}", std::strerror(errno)));
}

/// Returns the exit code.
int balance(BalanceOptions options) {
  const std::string &program = options.command.front();
  requireNoModel(program, "balance");
  if (options.run.empty())
    options.run = valueIn(options.command, "--out");
  if (options.run.empty())
    options.run = "dtc-out";
  if (options.output.empty())
    options.output = program + ".balanced";
  requireStopped(options.run);
  requireNoInput(options.output, {program});
  asOption("-o " + options.output, [&] { requireWritable(options.output); });
  int exitCode = 0;
  nlohmann::json answer = askForJson({"rebalance", program, "--profile", options.run, "-o", options.output}, &exitCode);
  if (answer.is_null())
    return exitCode == 0 ? static_cast<int>(ExitCode::Runtime) : exitCode; // the compiler said why
  for (const nlohmann::json &line : answer.at("lines"))
    say("{}: {}\n", program, line.get<std::string>());
  if (!answer.at("balanced").get<bool>())
    return 0;
  say("{}: goes on with the run of {}\n", options.output, options.run);
  becomeRun(options);
}

} // namespace

void dtc::addBalance(CLI::App &app, int &exitCode) {
  auto [verb, options] = addVerb<BalanceOptions>(
      app, "balance",
      "Cut the pipeline of a run again by what its stages took, and go on with it from its newest checkpoint.",
      balanceFooter);
  verb->add_option("--run", options->run,
                   "The folder of the run; by default the --out among the program's arguments, or dtc-out");
  verb->add_option("-o,--output", options->output,
                   "The program with the other cut; by default PROGRAM with .balanced behind its name");
  handOn(*verb, options->launch,
         {{"--hosts", "Hosts of the ranks, as 'dtc run' takes them"},
          {"--remote-shell", "What starts a command on another of --hosts"},
          {"--interface", "The interface on which hosts exchange data, as for 'dtc run'"},
          {"--max-restarts", "Start again when a rank is lost, as for 'dtc run'"}});
  verb->prefix_command(); // all words from the first one that is not ours belong to the program
  verb->callback([options, verb, &exitCode] {
    options->command = verb->remaining();
    requireWords(*verb, *options);
    exitCode = balance(*options);
  });
}
