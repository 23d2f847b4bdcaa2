#include "tools/dtc/CommandLine.h"

#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/limits.h"
#include "runtime/support/standard_files.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/OtherVerbs.h"

#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>

using namespace dtc;

static constexpr const char *introduction =
    "Compiles a model for a mesh of devices into one program, runs it, and shows what is in it.";

static constexpr const char *footer =
    "\nEach verb explains itself: dtc VERB --help.\n"
    "Exit codes: 0 success, 1 the machine or the program failed, 2 wrong command line, 3 bad input,\n"
    "4 another rank was lost, 5 loss or gradient not finite, 7 memory or arithmetic of a rank went wrong,\n"
    "8 a mistake in dtc itself, 128+n ended by signal n.\n\n"
    "Examples:\n"
    "  $ dtc data pack book.txt -o book.bin\n"
    "  $ dtc compile examples/gpt-small --mesh dp=2,tp=2 --config examples/gpt-small/train.toml -o gpt\n"
    "  $ dtc run -n 4 gpt --data book.bin\n"
    "  $ dtc explain gpt\n";

static int reportUsage(const CLI::App &app, const CLI::ParseError &error, int argc, char **argv) {
  std::string verb = argc > 1 ? argv[1] : "";
  sayError(usageProblem(app, error, argc, argv, optionsElsewhere(verb, argc, argv)) + "\nTry '" + chosenVerb(app) +
           " --help'.");
  return static_cast<int>(ExitCode::Usage);
}

static int reportError(const char *message, ExitCode code) {
  sayError(message);
  return static_cast<int>(code);
}

static int parseAndRun(int argc, char **argv, const std::string &version,
                       const std::function<void(CLI::App &, int &)> &addVerbs, const KnownValues &values) {
  CLI::App app(introduction, "dtc");
  app.footer(footer);
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  int exitCode = 0;
  addVerbs(app, exitCode);
  if (argc > 1 && std::string_view(argv[1]) == CompletionVerb) {
    tell(stdout, completions(app, std::vector<std::string>(argv + 2, argv + argc), values));
    return exitCode;
  }
  checkValues(app);
  try {
    app.parse(argc, argv);
    return exitCode;
  } catch (const CLI::ParseError &error) {
    bool isAnswer = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success); // --help, --version
    return isAnswer ? app.exit(error) : reportUsage(app, error, argc, argv);
  }
}

int dtc::runCommandLine(int argc, char **argv, const std::string &version,
                        const std::function<void(CLI::App &, int &)> &addVerbs, const KnownValues &values) {
  reserveStandardFiles();
  std::signal(SIGXFSZ, SIG_IGN); // exceeding the file size limit is then an error of the failing call
  try {
    int exitCode = parseAndRun(argc, argv, version, addVerbs, values);
    requirePrinted();
    return exitCode;
  } catch (const Error &error) {
    return reportError(error.what(), error.exitCode());
  } catch (const std::bad_alloc &) {
    return reportError("out of memory", ExitCode::Runtime);
  } catch (const std::system_error &error) { // fmt throws it when it cannot print a long answer
    bool isAnswer = std::ferror(stdout) != 0;
    std::string words = isAnswer ? cannotPrint(error.code().value()).what() : wordsOf(error);
    return reportError(words.c_str(), ExitCode::Runtime);
  } catch (const std::exception &error) {
    return reportError(error.what(), ExitCode::Runtime);
  }
}
