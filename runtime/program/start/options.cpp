#include "runtime/program/start/options.h"

#include "runtime/config/training_config.h"
#include "runtime/data/token_file.h"
#include "runtime/program/start/command_line.h"
#include "runtime/program/start/complete.h"
#include "runtime/program/start/other_options.h"
#include "runtime/support/error.h"
#include "runtime/support/escape.h"
#include "runtime/support/standard_files.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>

namespace dtc {

static constexpr const char *Examples = R"(
Exit codes: 0 ok, 1 runtime, 2 usage, 3 bad input, 4 a peer was lost, 5 loss not finite,
7 memory or arithmetic of a rank went wrong, 128+n stopped by signal n.

Examples:
  $ dtc run -n 4 ./gpt --data corpus.bin                    # train on four local ranks
  $ dtc run -n 4 ./gpt --data corpus.bin --resume dtc-out   # go on from the latest checkpoint
  $ dtc run -n 4 ./gpt --data 0.7 web/*.bin 0.3 code.bin     # train on a mixture
  $ ./gpt --data corpus.bin --weights dtc-out/checkpoints/step-000100 --eval-only
  $ dtc run -n 4 ./gpt --data corpus.bin --set checkpoint_every=50 --trace 3-5)";

/// The advice about options of other commands.
static std::vector<OtherOptions> optionsElsewhere() {
  return {{optionsOf(Command::Run),
           "is an option of 'dtc run' and goes before the program: dtc run OPTIONS PROGRAM ARGUMENTS"},
          {optionsOf(Command::Compile), "is an option of 'dtc compile': it was fixed when the program was compiled"}};
}

/// "3" or "3-5".
static void parseTrace(const std::string &text, ProgramOptions &options) {
  const char *at = text.data(), *end = at + text.size();
  auto [dash, problem] = std::from_chars(at, end, options.traceFirst);
  options.traceLast = options.traceFirst;
  if (problem == std::errc() && dash != end && *dash == '-') {
    auto last = std::from_chars(dash + 1, end, options.traceLast);
    problem = last.ec;
    dash = last.ptr;
  }
  if (problem != std::errc() || dash != end || options.traceFirst < 1 || options.traceLast < options.traceFirst)
    throw Error(ExitCode::Usage, fmt::format("--trace {}: write a step, or the first and last as 3-5", text));
}

/// Nothing that trains goes with it.
static void addSample(CLI::App &app, ProgramOptions &options) {
  CLI::Option *sample =
      app.add_option("--sample", options.sample,
                     "For a program that generates (dtc compile --generate): a file with the request, "
                     "{\"prompts\": [[464, 3290]], \"max_tokens\": 32}; prints a line for each token");
  for (const char *trains : {"--data", "--validation-data", "--steps", "--resume", "--eval-only", "--trace",
                             "--replay-check", "--log-losses", "--tensorboard"})
    sample->excludes(app.get_option(trains));
}

/// Prints completions for a shell.
[[noreturn]] static void answerShell(const CLI::App &app, int argc, char **argv) {
  KnownValues values;
  for (const std::string &key : settingKeys(/*open=*/true))
    values["--set"].push_back(key + "=");
  std::fputs(completions(app, std::vector<std::string>(argv + 2, argv + argc), values).c_str(), stdout);
  requirePrinted();
  std::exit(0);
}

/// What a run starts from, and where its results go.
static void addInputs(CLI::App &app, ProgramOptions &options, std::vector<std::string> &data) {
  app.add_option("--data", data,
                 "Token files to train on, laid end to end (see 'dtc data'); or a mixture, 0.7 a.bin b.bin 0.3 c.bin: "
                 "weights,\n"
                 "each before the files of a source");
  app.add_option("--validation-data", options.validationData,
                 "Token files to evaluate on; the end of --data is then not held out");
  app.add_option("--data-format", options.dataFormat, dataFormatHelp)
      ->check(CLI::IsMember(dataFormats()))
      ->capture_default_str();
  app.add_option("--out", options.out, "Folder for checkpoints, metrics and trace")->capture_default_str();
  app.add_option("--steps", options.steps, "Train up to this step instead of the compiled number");
  app.add_option("--resume", options.resume, "Go on from this checkpoint, or from the latest in this folder");
  app.add_flag("--resume-anyway", options.resumeAnyway, "Go on from a checkpoint of other data, batch size or seed");
  app.add_flag("!--no-verify-checkpoint", options.verifyCheckpoint,
               "Load a checkpoint without checking it against its checksums");
  app.add_flag("--verify-transfers", options.verifyTransfers,
               "Check data from other hosts against a hash, also over links of more than 200 MB/s");
  app.add_flag("--without-certificate", options.withoutCertificate,
               "Run a program whose command lists were not proven to be free of deadlocks, or were changed since");
  app.add_option("--weights", options.weights, "Start from the weights in this model directory");
}

/// How ranks use their machines, and when one of them counts as lost.
static void addMachines(CLI::App &app, ProgramOptions &options) {
  app.add_option("--threads", options.threads, "Threads per rank; 0: the machine's cores divided by the ranks")
      ->capture_default_str()
      ->check(atLeast(0));
  app.add_flag("--share-gpu", options.shareGpu,
               "Let several ranks work on one GPU, to try a layout; for speed, one each");
  app.add_flag("!--no-graphs", options.graphs,
               "On GPUs, launch each kernel separately in every step instead of a whole list as one CUDA graph");
  app.add_option("--tune", options.tuned,
                 "On GPUs, take the algorithms of products from this file, and time and add those that it lacks");
  app.add_flag("--tf32", options.tf32, "On GPUs, round the factors of f32 products to TF32: faster, with 3 digits");
  app.add_option("--start-timeout", options.startTimeout, "Seconds that the ranks of a job have to join")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--watchdog", options.watchdog,
                 "Seconds that a rank may be stopped, unreachable or stuck in a command before it is named and all end")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
}

/// What is done each step, and what is written of it.
static void addSteps(CLI::App &app, ProgramOptions &options, std::string &trace) {
  app.add_option("--set", options.settings, "Change a training setting: key=value");
  app.add_option("--trace", trace, "Trace these steps, e.g. 3-5, into trace.json (open it in Perfetto)");
  app.add_option("--replay-check", options.replayCheck,
                 "Compute every N-th step's forward and backward pass twice and compare their bits")
      ->check(CLI::PositiveNumber);
  app.add_option("--log-losses", options.lossFile, "Write each step's number and exact loss to this file");
  app.add_flag("--tensorboard", options.tensorboard,
               "Write the metrics also as an event file into the folder of --out, for TensorBoard");
  app.add_flag("--eval-only", options.evalOnly, "Evaluate on the held-out part of the data and stop");
  constexpr const char *ofOtherParts = ""; // of dtc: nobody else needs them
  app.add_option("--evaluation", options.evaluation)->group(ofOtherParts);
  app.add_flag("--by-document", options.byDocument)->group(ofOtherParts);
  app.add_option("--probe-links", options.probeLinks)->group(ofOtherParts);
}

static void parse(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    int code = app.exit(request);
    requirePrinted();
    std::exit(code);
  } catch (const CLI::ParseError &error) {
    throw Error(ExitCode::Usage,
                usageProblem(app, error, argc, argv, optionsElsewhere()) + "; --help lists all options");
  }
}

ProgramOptions parseOptions(int argc, char **argv, const std::function<std::string()> &version) {
  ProgramOptions options;
  std::string trace;
  std::vector<std::string> data;
  CLI::App app(
      "A model compiled by dtc for a mesh of ranks. Trains it, evaluates it with --eval-only, or generates text "
      "with --sample.");
  app.name(escaped(argc > 0 ? argv[0] : "program")); // in its help
  app.footer(Examples);
  app.set_version_flag("--version", version);
  addInputs(app, options, data);
  addMachines(app, options);
  addSteps(app, options, trace);
  addSample(app, options);
  if (argc > 1 && std::string_view(argv[1]) == CompletionVerb)
    answerShell(app, argc, argv);
  checkValues(app);
  parse(app, argc, argv);
  if (!options.resume.empty() && !options.weights.empty())
    throw Error(ExitCode::Usage, "--resume and --weights both say where the weights are; give one");
  if (options.steps && *options.steps < 0)
    throw Error(ExitCode::Usage, fmt::format("--steps {}: it cannot be negative", *options.steps));
  if (!trace.empty())
    parseTrace(trace, options);
  options.data = parseSources(data);
  return options;
}

} // namespace dtc
