// dtc schedule: what a pipeline's timetable looks like, and what it costs; no model is needed.
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/pipedream.h"
#include "timing/timetables/search.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/schedule/Picture.h"
#include "tools/dtc/schedule/ScheduleText.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace dtc;
using namespace dtc::timetables;

static constexpr const char *scheduleFooter =
    "\nExamples:\n"
    "  $ dtc schedule --stages 8 --microbatches 32 --timetable zbv\n"
    "  $ dtc schedule --stages 8 --microbatches 16 --timetable interleaved --ranks 2 -o picture.svg\n"
    "  $ dtc schedule --stages 4 --microbatches 8 --timetable auto --memory-limit 5 --csv mine.csv\n"
    "  $ dtc schedule --timetable mine.csv --transfer 0.25 --json\n";

namespace {

constexpr std::string_view searched = "auto", fileSuffix = ".csv";

struct ScheduleOptions {
  std::string timetable = "1f1b", csv, picture;
  int64_t stages = 0, microBatches = 0, stagesPerRank = 0, ranks = 0; ///< 0: not given
  int64_t memoryLimit = 0;                                            ///< stashes of a rank; 0: no limit
  double forward = 1, backward = 1, weight = 1, transfer = 0;
  bool json = false;
};

bool isFile(const std::string &timetable) { return timetable.ends_with(fileSuffix); }

std::string knownNames() {
  std::string names;
  for (const Named &named : allNamed())
    names += std::string(named.name) + ",";
  return names + std::string(searched);
}

std::string checkTimetable(const std::string &text) {
  if (isFile(text) || text == searched || findNamed(text) || text == pipedream::name)
    return "";
  return fmt::format("'{}' is neither one of {} nor a file that ends in {}", text, knownNames(), fileSuffix);
}

Costs costsOf(const ScheduleOptions &options, int32_t stages) {
  return equalCosts(stages, options.forward, options.backward, options.weight, options.transfer);
}

/// Stages, ranks and micro-batches of a generated timetable.
Shape shapeOf(const ScheduleOptions &options) {
  for (const auto &[value, name] : {std::pair{options.stages, "--stages"}, {options.microBatches, "--microbatches"}}) {
    if (value == 0)
      throw Error(ExitCode::Usage, fmt::format("{} is required, unless --timetable is a file", name));
    constexpr int64_t most = 1'000'000;
    if (value > most)
      throw Error(ExitCode::BadInput, fmt::format("{} {}: there may be {} at most", name, value, most));
  }
  const Named *named = findNamed(options.timetable);
  int64_t perRank = options.stagesPerRank > 0 ? options.stagesPerRank
                    : options.ranks > 0       ? options.stages / options.ranks
                    : named                   ? named->leastPerRank
                                              : 1;
  int64_t ranks = options.ranks > 0 ? options.ranks : options.stages / std::max<int64_t>(perRank, 1);
  if (ranks < 1 || perRank < 1 || ranks * perRank != options.stages)
    throw Error(ExitCode::BadInput,
                fmt::format("{} stages are not as many on each {}: change --stages, --ranks or --stages-per-rank",
                            options.stages,
                            options.ranks > 0 ? fmt::format("of {} ranks", options.ranks)
                                              : fmt::format("rank, with {} a rank", perRank)));
  return {static_cast<int32_t>(ranks), static_cast<int32_t>(perRank), static_cast<int32_t>(options.microBatches)};
}

void makeTimetable(const ScheduleOptions &options, ScheduleAnswer &answer) {
  if (isFile(options.timetable)) {
    answer.timetable = readCsvFile(options.timetable);
    return;
  }
  if (options.timetable == pipedream::name)
    throw Error(ExitCode::BadInput, fmt::format("--timetable {}: its steps overlap, so that it has no step to draw by "
                                                "itself; docs/pipelines.md has its period",
                                                options.timetable));
  Shape shape = shapeOf(options);
  if (options.timetable != searched) {
    answer.timetable = generate(options.timetable, shape);
    return;
  }
  SearchRequest request{shape.ranks, shape.microBatches, costsOf(options, static_cast<int32_t>(options.stages)), {}};
  if (options.memoryLimit > 0)
    request.memoryLimit = static_cast<double>(options.memoryLimit);
  constexpr int64_t triesAtLeast = 40, passes = 3;
  request.effort = std::max(request.effort, triesAtLeast * passes * options.stages * options.microBatches);
  SearchResult result = searchTimetable(request);
  answer.timetable = std::move(result.timetable);
  answer.bestNamed = result.bestNamed;
  answer.namedSeconds = result.namedSeconds;
}

/// A generated timetable is valid. One from a file may be anything, and both may lack memory.
void requireValid(const ScheduleOptions &options, const Timetable &timetable) {
  std::string fault = findFault(timetable, options.memoryLimit);
  if (!fault.empty())
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", options.timetable, fault));
}

void writeWhereNamed(const std::string &path, const std::string &text) {
  if (path.empty())
    return;
  AtomicFile file(path);
  file.append(text);
  file.publish(0666);
}

void schedule(const ScheduleOptions &options) {
  for (const std::string &path : {options.csv, options.picture})
    if (!path.empty())
      requireWritable(path);
  ScheduleAnswer answer;
  makeTimetable(options, answer);
  requireValid(options, answer.timetable);
  answer.costs = costsOf(options, answer.timetable.stages());
  answer.simulated = simulate(answer.timetable, answer.costs);
  constexpr int32_t more = 8; // steps, and one for each rank, until the steps repeat
  answer.steady =
      simulateSteps(answer.timetable, answer.costs, static_cast<int32_t>(answer.timetable.ranks.size()) + more);
  answer.peakStashes = peakStashes(answer.timetable);
  answer.weightsOutOfOrder = findWeightsOutOfOrder(answer.timetable);
  writeWhereNamed(options.csv, writeCsv(answer.timetable));
  if (!options.picture.empty())
    writeWhereNamed(options.picture, scheduleSvg(answer.timetable, answer.simulated));
  if (options.json) {
    printJson(toJson(answer));
    return;
  }
  drawSchedule(answer.timetable, answer.simulated, terminalColumns());
  printSchedule(answer);
}

void addCosts(CLI::App &verb, ScheduleOptions &options) {
  constexpr double least = 1e-9, most = 1e9; // so that all sums of them are finite
  for (auto [name, value, help] :
       {std::tuple{"--forward", &options.forward, "Seconds of a stage's forward pass, or any other unit of time"},
        std::tuple{"--backward", &options.backward, "The same of a backward pass's first part, the input gradient"},
        std::tuple{"--weight", &options.weight, "The same of its second part, the weight gradients"}})
    verb.add_option(name, *value, help)->check(CLI::Range(least, most))->capture_default_str();
  verb.add_option("--transfer", options.transfer, "The same of a transfer from rank to rank")
      ->check(CLI::Range(0.0, most))
      ->capture_default_str();
}

} // namespace

void dtc::addSchedule(CLI::App &app) {
  auto [verb, options] = addVerb<ScheduleOptions>(
      app, "schedule", "Draw the timetable of a pipeline, check it, and say what it costs: no model is needed.",
      scheduleFooter);
  verb->add_option("--timetable", options->timetable,
                   "A name, auto (a search for the fastest), or a .csv file as torch.distributed.pipelining has them")
      ->check(CLI::Validator([](const std::string &text) { return checkTimetable(text); }, "{" + knownNames() + "}"))
      ->capture_default_str();
  auto count = [&](const std::string &name, int64_t &value, const char *help) {
    return verb->add_option(name, value, help)->check(atLeast(1))->type_name("COUNT");
  };
  count("--stages", options->stages, "Parts of the model");
  count("--microbatches", options->microBatches, "Micro-batches of a step");
  CLI::Option *ranks =
      count("--ranks", options->ranks, "Ranks that share the stages; by default as many as the timetable can use");
  count("--stages-per-rank", options->stagesPerRank, "The same, said the other way round")->excludes(ranks);
  addCosts(*verb, *options);
  count("--memory-limit", options->memoryLimit,
        "Refuse a timetable in which a rank holds the stashes of more passes than that, of all its stages together");
  verb->add_option("--csv", options->csv, "Write the timetable to this file");
  verb->add_option("-o,--output", options->picture, "Write the picture to this file, as SVG");
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options] { schedule(*options); });
}
