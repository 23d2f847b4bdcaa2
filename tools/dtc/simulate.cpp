// dtc simulate: what a step will cost on a cluster, before anybody has one.
#include "runtime/abi/timetables.h"
#include "runtime/program/run_files.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/ForecastMemory.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/ForecastTrace.h"
#include "tools/dtc/forecast/MeasuredTrace.h"
#include "tools/dtc/forecast/Room.h"
#include "tools/dtc/forecast/Scaling.h"
#include "tools/dtc/forecast/WhatIf.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
namespace fs = std::filesystem;

using namespace dtc;
using namespace dtc::timing;

static constexpr const char *simulateFooter =
    "\nExamples:\n"
    "  $ dtc simulate examples/gpt2 --mesh dp=4,tp=2 --cluster examples/clusters/h100x8.textproto\n"
    "  $ dtc simulate gpt --cluster cluster.textproto --what-if bandwidth=0.5 --what-if rank.3=1.5\n"
    "  $ dtc simulate examples/gpt2 --scale 8,64,512 --set global_batch=512 --cluster "
    "examples/clusters/h100x512.textproto\n"
    "  $ dtc simulate gpt --cluster cluster.textproto --fail-over 0.5 --json\n";

namespace {

struct SimulateOptions {
  std::string model, cluster, trace, profile;
  std::map<std::string, std::string> compile; ///< options of 'dtc compile' that were given, with their values
  std::vector<std::string> settings, whatIf;
  std::vector<int64_t> sizes; ///< for --scale
  double failOver = 0;        ///< seconds; 0: no limit
  bool json = false;
};

bool isModel(const std::string &path) {
  if (!fs::exists(path))
    throw Error(ExitCode::BadInput, fmt::format("{}: no such model or program", path));
  return fs::is_directory(path) || fs::path(path).extension() == ".mlir";
}

/// The compiler's arguments.
std::vector<std::string> compileTo(const std::string &program, const SimulateOptions &options) {
  std::vector<std::string> words = {"compile",   options.model,   "-o",         program,
                                    "--cluster", options.cluster, "--too-large"};
  for (const auto &[option, value] : options.compile)
    words.insert(words.end(), {option, value});
  for (const std::string &setting : options.settings)
    words.insert(words.end(), {"--set", setting});
  return words;
}

/// The program's manifest; a model is compiled first, into a folder that is removed at once. Nothing, with the exit
/// code, where the compiler has reported an error.
std::optional<abi::Manifest> manifestOf(const SimulateOptions &options, int &exitCode) {
  if (!isModel(options.model)) {
    if (!options.compile.empty() || !options.settings.empty())
      throw Error(ExitCode::BadInput,
                  fmt::format("'{}' is a program, and {} was fixed when it was compiled; leave the option out, or "
                              "name the model's directory in its place",
                              options.model, options.compile.empty() ? "--set" : options.compile.begin()->first));
    return readManifest(options.model);
  }
  TemporaryFolder folder("dtc-simulate");
  std::string program = folder.at("program");
  exitCode = askCompiler(compileTo(program, options)).exitCode;
  if (exitCode != 0)
    return std::nullopt;
  return readManifest(program);
}

void requireStep(const abi::Manifest &manifest, const std::string &path) {
  if (manifest.has_generation())
    throw Error(ExitCode::BadInput, fmt::format("'{}' generates text; simulate a program that trains", path));
}

/// All that the kernels' times depend on. Settings that a run may change are not part of it.
std::string whatRuns(const abi::Manifest &manifest) {
  abi::Manifest part;
  *part.mutable_mesh() = manifest.mesh();
  *part.mutable_kernels() = manifest.kernels();
  *part.mutable_lists() = manifest.lists();
  *part.mutable_roles() = manifest.roles();
  part.set_target(manifest.target());
  return part.SerializeAsString();
}

/// What a run of this very program has measured of its kernels.
Conditions conditionsOf(const SimulateOptions &options, const abi::Manifest &manifest) {
  if (options.profile.empty())
    return {};
  fs::path trace = fs::path(options.profile) / "trace.json", ran = fs::path(options.profile) / RunFiles::Manifest;
  if (!fs::exists(trace))
    throw Error(ExitCode::BadInput,
                fmt::format("{} is not there: run the program with --trace 3-5, and name the folder "
                            "of its --out",
                            trace.string()));
  abi::Manifest measured;
  if (!fs::exists(ran) || !measured.ParseFromString(std::string(MappedFile(ran.string()).text())))
    throw Error(ExitCode::BadInput,
                fmt::format("{} is not there or cannot be read, so that nobody knows what was measured: run the "
                            "program again",
                            ran.string()));
  if (whatRuns(measured) != whatRuns(manifest))
    throw Error(
        ExitCode::BadInput,
        fmt::format("--profile {}: another program ran there, {} for {}; this one is {} for {}. Name the folder "
                    "of a run of this program, or simulate that one",
                    options.profile, measured.model_name(), meshText(measured.mesh()), manifest.model_name(),
                    meshText(manifest.mesh())));
  return {.measured = MeasuredTrace(manifest, trace).medians()};
}

/// A step under other conditions, and how much longer it takes.
struct Changed {
  std::string what;
  double seconds = 0;
};

std::vector<Changed> changedSteps(const SimulateOptions &options, const abi::Manifest &manifest, const Step &step,
                                  const Cluster &cluster, const Conditions &before) {
  std::vector<Changed> all;
  for (const std::string &whatIf : options.whatIf) {
    Cluster changed = cluster;
    Conditions conditions = before;
    applyWhatIf(whatIf, static_cast<int64_t>(step.roleOf.size()), changed, conditions);
    all.push_back({whatIf, simulate(step, Layout(changed, manifest.mesh()), conditions).seconds});
  }
  return all;
}

/// Several sizes are compiled, so the compiler's message about one of them becomes an Error for the caller.
abi::Manifest compileQuietly(const SimulateOptions &options) {
  TemporaryFolder folder("dtc-simulate");
  std::string program = folder.at("program");
  requireCompiled(compileTo(program, options));
  return readManifest(program);
}

int simulateSizes(const SimulateOptions &options) {
  timing::Cluster cluster = readCluster(options.cluster);
  if (!isModel(options.model))
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' is a program, compiled for one number of devices; --scale compiles the model for "
                            "each: name the model's directory in its place",
                            options.model));
  auto mesh = options.compile.find("--mesh");
  ScaleRequest request{mesh == options.compile.end() ? "" : mesh->second, options.sizes, {}};
  std::ranges::sort(request.sizes);
  request.sizes.erase(std::ranges::unique(request.sizes).begin(), request.sizes.end());
  request.compile = [&](const std::string &ofSize, int64_t batch) {
    SimulateOptions one = options;
    one.compile["--mesh"] = ofSize;
    if (batch > 0)
      one.settings.push_back(fmt::format("global_batch={}", batch));
    return compileQuietly(one);
  };
  Scaling scaling = scale(cluster, request);
  if (!options.json)
    printScaling(scaling);
  else {
    nlohmann::ordered_json answer = {{"model", options.model}};
    answer.update(toJson(scaling));
    printJson(answer);
  }
  return 0;
}

/// Returns the exit code.
int simulateModel(const SimulateOptions &options) {
  if (!options.sizes.empty())
    return simulateSizes(options);
  Cluster cluster = readCluster(options.cluster);
  int exitCode = 0;
  std::optional<abi::Manifest> read = manifestOf(options, exitCode);
  if (!read)
    return exitCode;
  const abi::Manifest &manifest = *read;
  requireStep(manifest, options.model);
  Step step = readStep(manifest, abi::stepTimetable);
  Layout layout(cluster, manifest.mesh());
  std::unique_ptr<ForecastTrace> trace;
  EqualRanks classes(step, layout);
  if (!options.trace.empty())
    trace = std::make_unique<ForecastTrace>(manifest, classes);
  Conditions conditions = conditionsOf(options, manifest);
  ForecastMemory memory(manifest, classes, trace.get());
  std::vector<Room> rooms = roomOf(manifest, layout);
  Forecast result = forecast(manifest, step, layout, conditions, &memory);
  if (trace)
    trace->write(options.trace, result.seconds);
  std::vector<Changed> changed = changedSteps(options, manifest, step, cluster, conditions);
  if (options.json) {
    nlohmann::ordered_json answer = {{"model", options.model}};
    answer.update(toJson(manifest, layout, result));
    answer["fits"] = std::ranges::all_of(rooms, &Room::isEnough);
    answer["room"] = toJson(rooms);
    answer["memory"] = memory.json();
    answer["what_if"] = nlohmann::ordered_json::array();
    for (const Changed &each : changed)
      answer["what_if"].push_back({{"change", each.what}, {"seconds", each.seconds}});
    printJson(answer);
  } else {
    printForecast(manifest, layout, result);
    memory.print();
    for (const Room &room : rooms)
      say("  {}: {}\n", room.isEnough() ? "fits" : "does not fit", roomText(room));
    if (!changed.empty())
      sayHeading("\nWhat if\n");
    for (const Changed &each : changed)
      say("  {:<28} {:>10}  {:.3f} times\n", each.what, secondsText(each.seconds), each.seconds / result.seconds);
  }
  warnOfRoom(manifest, layout, rooms);
  if (options.failOver > 0 && result.seconds > options.failOver) {
    sayError(fmt::format("a step takes {}, which is over --fail-over {}", secondsText(result.seconds),
                         secondsText(options.failOver)));
    return static_cast<int>(ExitCode::OverLimit);
  }
  return 0;
}

void addCompileOptions(CLI::App &verb, SimulateOptions &options) {
  handOn(verb, options.compile,
         {{"--mesh", "For a model: the devices as named axes, as for 'dtc compile'; by default dp=1"},
          {"--strategy", "For a model: how it is laid out on them, as for 'dtc compile'"},
          {"--timetable", "For a model: the order of a pipeline, as for 'dtc compile'"},
          {"--target", "For a model: the processor or GPU, as for 'dtc compile'"},
          {"--schedule-effort", "For a model: how many plans are tried for its order, as for 'dtc compile'"}});
  takeRepeated(verb.add_option("--set", options.settings, "For a model: a setting, as in --set accumulation=8"),
               "KEY=VALUE");
}

} // namespace

void dtc::addSimulate(CLI::App &app, int &exitCode) {
  auto [verb, options] = addVerb<SimulateOptions>(
      app, "simulate",
      "What a step will cost on a cluster, and where the time goes: nothing is run, no cluster is needed.",
      simulateFooter);
  verb->add_option("MODEL", options->model, "A directory with a config.json, a .mlir file, or a compiled program")
      ->required();
  verb->add_option("--cluster", options->cluster, "The cluster file (docs/clusters.md; 'dtc calibrate' writes one)")
      ->required();
  addCompileOptions(*verb, *options);
  CLI::Option *scale =
      verb->add_option("--scale", options->sizes,
                       "For a model: tables for these numbers of devices, with the same global batch (strong scaling) "
                       "and with one that grows from the smallest's (weak scaling). The axis dp of --mesh becomes "
                       "devices / the other axes, as with --mesh tp=8,pp=8; other settings stay")
          ->delimiter(',')
          ->check(atLeast(1))
          ->type_name("DEVICES,...")
          ->allow_extra_args(false);
  verb->add_option("--profile", options->profile,
                   "The folder of a run of the same program with --trace: kernels take as long as they took there")
      ->excludes(scale);
  takeRepeated(verb->add_option("--what-if", options->whatIf, whatIfHelp), "WHAT=FACTOR")->excludes(scale);
  verb->add_option("--trace", options->trace, "Write the simulated step to this file, as runs write theirs")
      ->excludes(scale);
  verb->add_option("--fail-over", options->failOver, "End with exit code 9 when a step takes longer than that")
      ->excludes(scale)
      ->check(positiveNumber())
      ->type_name("SECONDS");
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options, &exitCode] { exitCode = simulateModel(*options); });
}
