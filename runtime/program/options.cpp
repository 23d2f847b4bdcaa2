#include "runtime/program/options.h"

#include "runtime/abi/error.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <map>

namespace dtc {

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

template <typename Number>
static Number parseNumber(const std::string &setting, const std::string &text, double least) {
  Number value;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || static_cast<double>(value) < least)
    throw Error(ExitCode::Usage, fmt::format("--set {}: '{}' is not a number of at least {}", setting, text, least));
  return value;
}

void applySetting(abi::Training &training, const std::string &setting) {
  using Setter = std::function<void(const std::string &)>;
  auto whole = [&](auto set, double least) -> Setter {
    return [&training, &setting, set, least](const std::string &text) {
      (training.*set)(parseNumber<int64_t>(setting, text, least));
    };
  };
  auto real = [&](auto set) -> Setter {
    return
        [&training, &setting, set](const std::string &text) { (training.*set)(parseNumber<double>(setting, text, 0)); };
  };
  const std::map<std::string, Setter> setters = {
      {"steps", whole(&abi::Training::set_steps, 0)},
      {"warmup_steps", whole(&abi::Training::set_warmup_steps, 0)},
      {"eval_every", whole(&abi::Training::set_eval_every, 0)},
      {"eval_batches", whole(&abi::Training::set_eval_batches, 0)},
      {"checkpoint_every", whole(&abi::Training::set_checkpoint_every, 0)},
      {"keep", whole(&abi::Training::set_keep, 0)},
      {"seed", whole(&abi::Training::set_seed, 0)},
      {"learning_rate", real(&abi::Training::set_learning_rate)},
      {"minimum_learning_rate", real(&abi::Training::set_minimum_learning_rate)},
  };
  size_t equals = setting.find('=');
  std::string key = setting.substr(0, equals);
  if (equals == std::string::npos)
    throw Error(ExitCode::Usage, fmt::format("--set {}: write it as key=value", setting));
  auto setter = setters.find(key);
  if (setter == setters.end()) {
    std::string known;
    for (const auto &[name, ignored] : setters)
      known += (known.empty() ? "" : ", ") + name;
    throw Error(ExitCode::Usage,
                fmt::format("--set {}: '{}' is unknown or compiled in; a compiled program can still change {}", setting,
                            key, known));
  }
  setter->second(setting.substr(equals + 1));
}

//===----------------------------------------------------------------------===//
// Command line
//===----------------------------------------------------------------------===//

static constexpr const char *Examples = R"(
Examples:
  dtc run -n 4 ./gpt --data corpus.bin                  train on four local ranks
  dtc run -n 4 ./gpt --data corpus.bin --resume dtc-out go on from the latest checkpoint
  ./gpt --data corpus.bin --weights dtc-out/checkpoints/step-000100 --eval-only
  dtc run -n 4 ./gpt --data corpus.bin --set checkpoint_every=50 --trace 3-5

Exit codes: 0 ok, 1 runtime, 2 usage, 3 bad input, 4 a peer was lost, 5 loss not finite, 128+n stopped by signal n.)";

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

ProgramOptions parseOptions(int argc, char **argv) {
  ProgramOptions options;
  std::string trace;
  CLI::App app("A model compiled by dtc for a mesh of ranks. Trains it, or evaluates it with --eval-only.");
  app.footer(Examples);
  app.set_version_flag("--version", "a program made by dtc " DTC_VERSION);
  app.add_option("--data", options.data, "Token files to train on, laid end to end (see 'dtc data')")->required();
  app.add_option("--validation-data", options.validationData,
                 "Token files to evaluate on; the end of --data is then not held out");
  app.add_option("--data-format", options.dataFormat, "llm.c, or nanogpt: 16-bit tokens without a header")
      ->check(CLI::IsMember({"llm.c", "nanogpt"}))
      ->capture_default_str();
  app.add_option("--out", options.out, "Folder for checkpoints, metrics and trace")->capture_default_str();
  app.add_option("--steps", options.steps, "Train up to this step instead of the compiled number");
  app.add_option("--resume", options.resume, "Go on from this checkpoint, or from the latest in this folder");
  app.add_flag("--resume-anyway", options.resumeAnyway, "Go on from a checkpoint of other data, batch size or seed");
  app.add_flag("!--no-verify-checkpoint", options.verifyCheckpoint,
               "Load a checkpoint without holding it against its checksums");
  app.add_option("--weights", options.weights, "Start from the weights in this model directory");
  app.add_option("--threads", options.threads, "Threads per rank; 0: the machine's cores divided by the ranks")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--set", options.settings, "Change a training setting: key=value");
  app.add_option("--trace", trace, "Trace these steps, e.g. 3-5, into trace.json (open it in Perfetto)");
  app.add_option("--log-losses", options.lossFile, "Write each step's number and exact loss to this file");
  app.add_flag("--eval-only", options.evalOnly, "Evaluate on the held-out part of the data and stop");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    std::exit(app.exit(request));
  } catch (const CLI::ParseError &error) {
    throw Error(ExitCode::Usage, std::string(error.what()) + "; --help shows what there is");
  }
  if (app.count("--resume") && options.resume.empty())
    throw Error(ExitCode::Usage, "--resume: it names no checkpoint; leave it out to start from the beginning");
  if (!options.resume.empty() && !options.weights.empty())
    throw Error(ExitCode::Usage, "--resume and --weights both say where the weights are; give one");
  if (options.steps && *options.steps < 0)
    throw Error(ExitCode::Usage, fmt::format("--steps {}: it cannot be negative", *options.steps));
  if (!trace.empty())
    parseTrace(trace, options);
  return options;
}

} // namespace dtc
