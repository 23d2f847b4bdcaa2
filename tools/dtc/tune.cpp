// dtc tune: which order of a step, and which buckets, are the fastest on the machine itself.
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"
#include "timing/cost/fit.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/Process.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/ForecastText.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace dtc;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

static constexpr const char *tuneFooter =
    "\nEach order trains for some steps; nothing else should run meanwhile. All give the same losses, to the "
    "bit. Where there are few orders, buckets of other sizes are measured, too.\n\n"
    "Examples:\n"
    "  $ dtc tune gpt --data book.bin --cluster here.textproto -o choices.toml\n"
    "  $ dtc compile model --mesh dp=2 --choices choices.toml -o gpt\n"
    "  $ dtc tune gpt --data book.bin --cluster cluster.textproto --hosts node1,node2 --candidates 10\n";

namespace {

struct TuneOptions {
  std::string program, cluster, output = "choices.toml";
  std::vector<std::string> data;   ///< options of the program that select its training data
  std::vector<std::string> launch; ///< options of `dtc run`
  int64_t candidates = 6, steps = 8, rounds = 3;
  bool json = false;
};

/// A program that differs from the others in the order of its step or in its buckets.
struct Variant {
  std::string program, choices, summary;
  double predicted = 0;
  std::vector<double> steps; ///< measured, the first of each run left out
  std::string losses;

  double measured() const { return timing::median(steps); }
  double uncertainty() const { return timing::uncertaintyOfMedian(steps); }
};

std::vector<Variant> makeVariants(const TuneOptions &options, const TemporaryFolder &folder) {
  std::vector<std::string> words = {"variants", options.program, "--cluster", options.cluster,
                                    "--folder", folder.at(""),   "--count",   std::to_string(options.candidates)};
  int exitCode = 0;
  nlohmann::json answer = askForJson(words, &exitCode);
  if (answer.is_null())
    throw Error(exitCode == 0 ? ExitCode::Runtime : static_cast<ExitCode>(exitCode),
                options.program + ": no other order was compiled; the compiler said why");
  std::vector<Variant> variants;
  for (const nlohmann::json &each : answer["variants"])
    variants.push_back({each["program"], each["choices"], each["summary"], each["seconds"], {}, {}});
  return variants;
}

std::string readText(const fs::path &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Trains for some steps. The first two fill caches and connections.
void measure(const TuneOptions &options, Variant &variant, const fs::path &out) {
  constexpr int64_t settled = 3;
  fs::remove_all(out);
  std::vector<std::string> command = {"/proc/self/exe", "run"};
  command.insert(command.end(), options.launch.begin(), options.launch.end());
  command.push_back(variant.program);
  command.insert(command.end(), options.data.begin(), options.data.end());
  command.insert(command.end(), {"--out", out, "--steps", std::to_string(settled + options.steps - 1), "--log-losses",
                                 out.string() + ".losses"});
  std::string said;
  int code = runProcess(command, said);
  if (code != 0)
    throw Error(static_cast<ExitCode>(code),
                fmt::format("a run of {} steps ended with exit code {}\n{}", options.steps, code, said));
  std::ifstream file(out / "metrics.jsonl");
  for (std::string line; std::getline(file, line);)
    if (nlohmann::json step = nlohmann::json::parse(line);
        step.contains("time_metrics/end_to_end(s)") && step.at("step").get<int64_t>() >= settled)
      variant.steps.push_back(step.at("time_metrics/end_to_end(s)"));
  if (variant.steps.empty())
    throw Error("a run reported no step's time");
  variant.losses = readText(out.string() + ".losses");
}

/// No order changes a single bit of a loss; one that did would be a bug.
void requireEqualLosses(const std::vector<Variant> &variants) {
  for (const Variant &each : variants)
    if (each.losses != variants.front().losses)
      throw Error(ExitCode::Internal,
                  "two orders of the step trained to different losses. This is a mistake in dtc, not in what it was "
                  "given: please report it, with these choices:\n" +
                      each.choices);
}

void print(const std::vector<Variant> &variants, const Variant &best) {
  say("{:>12}{:>12}{:>12}\n", "foretold", "measured", "+-");
  for (const Variant &each : variants)
    say("{:>12}{:>12}{:>12}  {}{}\n", secondsText(each.predicted), secondsText(each.measured()),
        secondsText(each.uncertainty()), each.summary, &each == &best ? "  <- the fastest" : "");
}

/// Whether the measured steps are too close to tell the variants apart.
bool isAlike(const Variant &one, const Variant &other) {
  return std::abs(one.measured() - other.measured()) <= one.uncertainty() + other.uncertainty();
}

/// By how much the variant that is predicted to be the fastest is slower than the one that is.
double regretOf(const std::vector<Variant> &variants, const Variant &best) {
  return std::ranges::min_element(variants, {}, &Variant::predicted)->measured() / best.measured() - 1;
}

ordered_json toJson(const std::vector<Variant> &variants, const Variant &best) {
  ordered_json candidates = ordered_json::array();
  for (const Variant &each : variants)
    candidates.push_back({{"choices", each.choices},
                          {"predicted", each.predicted},
                          {"measured", each.measured()},
                          {"uncertainty", each.uncertainty()},
                          {"fastest", &each == &best}});
  return {{"candidates", candidates}, {"regret", regretOf(variants, best)}};
}

void writeChoices(const TuneOptions &options, size_t count, const Variant &best) {
  AtomicFile file(options.output);
  file.append(fmt::format("# The fastest of {} orders that dtc tune has measured: {} a step\n{}", count,
                          secondsText(best.measured()), best.choices));
  file.publish(0666);
}

void tune(const TuneOptions &options) {
  requireNoModel(options.program, "tune");
  requireNoInput(options.output, {options.program, options.cluster});
  asOption("-o " + options.output, [&] { requireWritable(options.output); });
  TemporaryFolder folder("dtc-tune");
  std::vector<Variant> variants = makeVariants(options, folder);
  if (variants.size() == 1)
    tellWarning("ranks wait for nothing that another order or other buckets could hide on " + options.cluster +
                ": the program's own is the only candidate");
  for (int64_t round = 0; round < options.rounds; ++round)
    for (Variant &each : variants)
      measure(options, each, folder.at("out"));
  requireEqualLosses(variants);
  const Variant &best = *std::ranges::min_element(variants, {}, &Variant::measured);
  writeChoices(options, variants.size(), best);
  if (options.json)
    return printJson(toJson(variants, best));
  print(variants, best);
  say("{}: {} a step, {:.1f}% less than the program as it is; compile with --choices {}\n", options.output,
      secondsText(best.measured()), 100 * (1 - best.measured() / variants.front().measured()),
      shellWord(options.output));
  if (&best != &variants.front() && isAlike(best, variants.front()))
    say("the program as it is may be as fast: the two differ by less than their steps do; more --rounds would tell\n");
}

} // namespace

void dtc::addTune(CLI::App &app) {
  auto [verb, options] = addVerb<TuneOptions>(
      app, "tune",
      "Measure a program's step in the orders that are predicted to be the fastest, and keep the fastest one.",
      tuneFooter);
  verb->add_option("PROGRAM", options->program, "What dtc compile wrote")->required();
  handOn(*verb, options->data,
         {{"--data", "What it trains on, as the program takes it"}, {"--data-format", "Likewise"}})
      .front()
      ->required();
  verb->add_option("--cluster", options->cluster, "A cluster file (docs/clusters.md), from which orders are predicted")
      ->required();
  verb->add_option("-o,--output", options->output, "The file of choices")->capture_default_str();
  verb->add_option("--candidates", options->candidates, "How many orders are measured, the program's own among them")
      ->check(atLeast(2))
      ->capture_default_str();
  verb->add_option("--steps", options->steps, "Steps of each run that are measured")
      ->check(atLeast(1))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "How often each order is run, in turn")
      ->check(atLeast(1))
      ->capture_default_str();
  handOn(*verb, options->launch,
         {{"--hosts", "Hosts of the ranks, as 'dtc run' takes them"},
          {"--remote-shell", "What starts a command on another of --hosts"},
          {"--interface", "The interface on which hosts exchange data, as for 'dtc run'"}});
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options] { tune(*options); });
}
