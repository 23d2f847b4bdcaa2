// dtc compile: from a model and a mesh to a program, or to the text of any phase on the way.
#include "tools/dtc/AdviceOptions.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/MoreAccumulation.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StagesText.h"
#include "tools/dtc/Targets.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/WriteProgram.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/Room.h"
#include "tools/dtc/report/StageTimes.h"
#include "tools/dtc/verify/VerifyProgram.h"

#include "dialect/IR/Ops.h"
#include "frontends/huggingface/Huggingface.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/place/Presets.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/timetables.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/log_line.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"
#include "timing/events/forecast.h"
#include "timing/events/step.h"
#include "timing/timetables/named.h"
#include "timing/timetables/pipedream.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <optional>

using namespace dtc;

static constexpr const char *compileFooter =
    "\nExamples:\n"
    "  $ dtc compile examples/gpt-small -o gpt                                  # one rank\n"
    "  $ dtc compile examples/gpt-small --mesh dp=2,tp=2 --config examples/gpt-small/train.toml -o gpt\n"
    "  $ dtc compile examples/llama-small --mesh tp=4 --strategy megatron-sp --set accumulation=2 -o llama\n"
    "  $ dtc compile examples/gpt2 --mesh dp=8 --cluster examples/clusters/h100x8.textproto -o gpt2.train\n"
    "  $ dtc compile examples/gpt2 --generate 256 -o gpt2.sample                 # generates, for dtc sample\n"
    "  $ dtc compile examples/gpt2 --mesh dp=8 --compile-to where               # text of a phase\n";

namespace {

struct CompileVerbOptions {
  CompileRequest request;
  std::string phase, output, cluster, profile;
  bool locations = false, isTooLarge = false;
  AdviceOptions advice;
};

/// What --compile-to may name, and the last phase to run for it: none for the frontend's own output.
struct NamedPhase {
  const char *name;
  std::optional<Phase> last;
};
constexpr NamedPhase phases[] = {{"model", std::nullopt}, {"what", Phase::What}, {"where", Phase::Where},
                                 {"keep", Phase::Keep},   {"how", Phase::How},   {"when", Phase::When}};

/// Not a form of the module, but the choices made on the way.
constexpr const char *choicesPhase = "choices";

bool isStandardOutput(const std::string &path) { return path.empty() || path == "-"; }

/// Fails early: nobody wants to compile for minutes and only then learn that the result cannot be written.
void tryOutput(const CompileVerbOptions &options) {
  asOption("-o " + options.output, [&] {
    requireNoInput(options.output, {options.request.model, options.request.strategy, options.request.configFile,
                                    options.request.choicesFile});
    requireWritable(options.output);
  });
}

/// Why a text is not a mesh; or an empty string, and the mesh.
std::string readMesh(const std::string &text, abi::Mesh *mesh = nullptr) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::dt::DTDialect>();
  std::string problem;
  auto parsed = parseMesh(&context, text, [&](const llvm::Twine &message) { problem = message.str(); });
  if (mesh && succeeded(parsed))
    for (mlir::dt::AxisAttr axis : parsed->getAxes()) {
      abi::Axis &added = *mesh->add_axes();
      added.set_name(axis.getName().str());
      added.set_size(axis.getSize());
    }
  return problem;
}

/// The ranks' placement, where a cluster was named: known before the work.
std::optional<timing::Layout> layoutOf(const std::string &cluster, const CompileRequest &request) {
  if (cluster.empty())
    return std::nullopt;
  abi::Mesh mesh;
  readMesh(request.mesh, &mesh);
  return layoutOn(cluster, mesh);
}

/// Of the rank that needs most.
uint64_t largestArena(const abi::Manifest &manifest) {
  return std::ranges::max_element(manifest.roles(), {}, &abi::Role::arena_bytes)->arena_bytes(); // roles are large
}

std::string textOf(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().enableDebugInfo(locations));
  return text;
}

/// LLVM's streams end the process when they cannot write.
void writeText(const std::string &text, const std::string &path) {
  if (isStandardOutput(path)) {
    fmt::print("{}", text);
    return;
  }
  AtomicFile file(path);
  file.append(text);
  file.publish(0666);
}

/// What --profile measured, if it is given.
std::optional<StageProfile> profileOf(const CompileVerbOptions &options) {
  if (options.profile.empty())
    return std::nullopt;
  return readStageProfile(options.profile);
}

void compileToPhase(const CompileVerbOptions &options) {
  if (!isStandardOutput(options.output))
    tryOutput(options);
  std::optional<StageProfile> profile = profileOf(options);
  CompileRequest request = options.request;
  request.profile = profile ? &*profile : nullptr;
  LoadedModel loaded(request);
  if (options.phase == choicesPhase)
    return writeText(loaded.describeChoices(), options.output);
  for (const NamedPhase &phase : phases)
    if (phase.name == options.phase && phase.last)
      loaded.runPhases(*phase.last);
  writeText(textOf(loaded.module(), options.locations), options.output);
}

/// `forecast` is the program's.
std::string searchedText(const SearchedOrder &searched, const timing::Forecast &forecast) {
  constexpr double hardly = 0.005; // of a step
  if (searched.plans == 1 && forecast.moving() < hardly * forecast.seconds)
    return "no other order was tried: ranks hardly wait for what moves";
  if (searched.plans == 1)
    return "no other order was tried: none was found that might hide some of what ranks wait for";
  std::string tried =
      fmt::format("{} plans tried{}", searched.plans, searched.isComplete ? "" : ", more with --schedule-effort");
  if (searched.after == searched.before)
    return tried + ": none is better than the simple order";
  return fmt::format("{}: a step takes {} instead of the simple order's {}, {:.1f}% less", tried,
                     secondsText(searched.after), secondsText(searched.before),
                     100 * (1 - searched.after / searched.before));
}

/// What was chosen, and against what.
std::string timetableText(const ChosenTimetable &chosen) {
  std::string text = fmt::format("{}, the fastest of {} that were simulated: a step takes {}", chosen.text,
                                 chosen.simulated, secondsText(chosen.seconds));
  if (!chosen.choices.layers.empty())
    text += fmt::format(", with layers [{}]", fmt::join(chosen.choices.layers, ", "));
  if (chosen.bestNamed.empty())
    return text + "; no named timetable that was tried fits";
  if (chosen.bestNamed == chosen.text)
    return text;
  return text + fmt::format("; the best named one, {}, takes {}", chosen.bestNamed, secondsText(chosen.namedSeconds));
}

/// What would make ranks wait less; `model` where the program does not carry it.
std::vector<std::string> remedyLines(const timing::Layout &layout, const abi::Manifest &manifest,
                                     const timing::Step &step, const std::string &program, const std::string &model) {
  std::vector<std::string> lines;
  if (auto remedy = findMoreAccumulation(manifest, program, manifest.model_config_json().empty() ? model : "", layout))
    lines.push_back(textOf(*remedy));
  if (auto remedy = findFasterLink(step, layout))
    lines.push_back(textOf(*remedy));
  return lines;
}

void describeOn(const timing::Layout &layout, const CompiledProgram &compiled, const CompileVerbOptions &options) {
  const abi::Manifest &manifest = compiled.manifest;
  const std::string &program = options.output;
  for (const Room &room : roomOf(manifest, layout))
    say("{}: fits on {}: {}\n", program, layout.cluster().name(), roomText(room));
  if (manifest.has_generation())
    return;
  timing::Forecast forecast = timing::forecastStep(manifest, layout);
  if (compiled.searched)
    say("{}: {}\n", program, searchedText(*compiled.searched, forecast));
  for (const std::string &line : forecastLines(layout, forecast))
    say("{}: {}\n", program, line);
  if (abi::stepsAhead(manifest, abi::stepTimetable) == 0) { // remedies look at a step by itself
    timing::Step step = timing::readStep(manifest, abi::stepTimetable);
    for (const std::string &line : remedyLines(layout, manifest, step, program, options.request.model))
      say("{}: {}\n", program, line);
  }
  if (options.advice.isShown())
    printAdvice(adviceOn(options.advice, {manifest, &layout, &forecast}), options.advice.shown == "all");
}

/// What does not fit is an error, so the advice on it comes first: nothing does after it.
void requireRoomOn(const timing::Layout &layout, const abi::Manifest &manifest, const CompileVerbOptions &options) {
  if (options.advice.isShown())
    printAdvice(adviceOnRoom(options.advice, manifest, layout), options.advice.shown == "all");
  requireRoom(manifest, layout, options.request.model);
}

/// For processors the device's memory is the host's.
void warnOfHostMemory(const CompileRequest &request, const abi::Manifest &manifest) {
  uint64_t bytes = 0;
  for (const abi::Role &role : manifest.roles())
    bytes = std::max(bytes, role.host_bytes());
  if (bytes > 0 && !request.target.starts_with("cuda:"))
    tellWarning(fmt::format("recompute: offload saves nothing on {}, whose memory is the host's: a rank has {} there "
                            "beside its arena; it is for --target cuda, and here selective or full keep less",
                            request.target, bytesText(static_cast<double>(bytes))));
}

void compileToProgram(const CompileVerbOptions &options) {
  if (options.output.empty())
    throw Error(ExitCode::Usage, "compile: -o PROGRAM is required, or --compile-to PHASE to see the text of a phase");
  tryOutput(options);
  std::optional<timing::Layout> layout = layoutOf(options.cluster, options.request);
  std::optional<StageProfile> profile = profileOf(options);
  requireRuntime();
  auto begin = std::chrono::steady_clock::now();
  CompileRequest request = options.request;
  request.layout = layout ? &*layout : nullptr;
  request.profile = profile ? &*profile : nullptr;
  request.advises = !options.isTooLarge && request.generate == 0;
  // Never destroyed, which would take as long as a phase: the process ends after this.
  static LoadedModel &loaded = *new LoadedModel(request);
  static CompiledProgram &program = *new CompiledProgram(loaded.compile());
  if (layout && !options.isTooLarge)
    requireRoomOn(*layout, program.manifest, options);
  warnOfHostMemory(request, program.manifest);
  writeProgram(program, options.output);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  say("{}: {} for {} ({}), {} kernels, {} a rank, compiled in {:.2f} s\n", options.output,
      program.manifest.model_name(), meshText(program.manifest.mesh()),
      ranksText(Mesh(program.manifest.mesh()).ranks()), program.manifest.kernels_size(),
      bytesText(static_cast<double>(largestArena(program.manifest))), seconds.count());
  if (const std::optional<ChosenRecompute> &chosen = loaded.chosenRecompute())
    say("{}: recompute: {}: peak {} of {}, {:+.1f}% flops\n", options.output, chosen->text,
        bytesText(static_cast<double>(chosen->bytes)), bytesText(static_cast<double>(options.request.memoryLimit)),
        100 * (chosen->flops / chosen->flopsOfNone - 1));
  if (const std::optional<BalancedStages> &balanced = loaded.balancedStages())
    say("{}: {}\n", options.output, balancedText(*balanced));
  if (const std::optional<ProfiledStages> &profiled = loaded.profiledStages())
    for (const std::string &line : profiledLines(*profiled))
      say("{}: {}\n", options.output, line);
  if (const std::optional<ChosenTimetable> &chosen = loaded.chosenTimetable())
    say("{}: timetable: {}\n", options.output, timetableText(*chosen));
  if (layout && !options.isTooLarge)
    describeOn(*layout, program, options);
  else if (!layout && options.advice.isShown() && !program.manifest.has_generation()) // of what needs no cluster
    printAdvice(adviceOn(options.advice, {program.manifest}), options.advice.shown == "all");
  if (program.manifest.model_directory().empty())
    say("{}: it has no weights: {} seeded initialisation\n", options.request.model,
        options.request.generate ? "it generates from" : "training starts from");
}

} // namespace

static std::string checkTimetable(const std::string &text) {
  if (llvm::StringRef(text).ends_with(".csv") || text == searchedTimetable || timetables::findNamed(text) ||
      overlapsSteps(text))
    return "";
  return fmt::format("'{}' is no timetable, and no file that ends in .csv", text);
}

void dtc::addCompileRequest(CLI::App &verb, CompileRequest &request) {
  std::string families = huggingface::familyNames();
  verb.add_option("MODEL", request.model, "A directory with a config.json (" + families + "), or a .mlir file")
      ->required();
  verb.add_option("--mesh", request.mesh, "The devices as named axes, the last one varying fastest")
      ->check(CLI::Validator([](const std::string &text) { return readMesh(text); }, "", ""))
      ->capture_default_str();
  verb.add_option("--strategy", request.strategy,
                  "A file of annotations, or presets joined by +, such as megatron-sp+zero3: " +
                      llvm::join(getPresetNames(), ", ") + ":N")
      ->capture_default_str();
  std::vector<std::string> names;
  for (const timetables::Named &named : timetables::allNamed())
    names.emplace_back(named.name);
  names.emplace_back(searchedTimetable);
  names.emplace_back(timetables::pipedream::name);
  verb.add_option("--timetable", request.timetable,
                  "How the stages of a pipeline (mesh axis pp) take the micro-batches: a name, auto for the fastest on "
                  "a cluster (dtc compile --cluster), or a .csv file as torch.distributed.pipelining has them")
      ->check(CLI::Validator([](const std::string &text) { return checkTimetable(text); },
                             "{" + llvm::join(names, ",") + "}"))
      ->capture_default_str();
  verb.add_flag(
      "--overlap-steps", request.overlapSteps,
      "Let the ranks of a pipeline begin a step before all have ended the one before, with the same results, for a "
      "copy of parameters and optimizer state; for timetables that split backward passes, such as zbv");
  verb.add_option("--choices", request.choicesFile,
                  "Choices other than the layout, such as the order of commands (TOML)");
  verb.add_option("--config", request.configFile, "Training settings (TOML)");
  takeRepeated(
      verb.add_option("--set", request.assignments, "A training setting, as in --set steps=500; may be repeated"),
      "KEY=VALUE");
  verb.add_flag("--remarks", request.remarks,
                "Show where annotations conflict and how that was decided, and where stages of a pipeline are uneven");
}

static void requireNoProgram(const std::string &path) {
  if (looksLikeProgram(path))
    throw Error(ExitCode::BadInput,
                fmt::format("'{0}' is a program, and 'dtc compile' takes a model: a directory with a config.json, or a "
                            ".mlir file. Write: dtc inspect {0}, or run, explain or verify in its place",
                            shellWord(path)));
}

/// One target, or several GPU architectures, each of which is one.
static std::string checkTarget(const std::string &text) {
  static const CLI::IsMember known(std::vector<std::string>(std::begin(targetNames), std::end(targetNames)));
  constexpr std::string_view gpus = "cuda:";
  if (!text.starts_with(gpus) || text.find(',') == std::string::npos)
    return known(text);
  for (const std::string &architecture : CLI::detail::split(text.substr(gpus.size()), ','))
    if (std::string problem = known(std::string(gpus) + architecture); !problem.empty())
      return problem;
  return "";
}

static void addGeneration(CLI::App &verb, CompileRequest &request) {
  CLI::Option *generate = verb.add_option("--generate", request.generate,
                                          "Compile a program that generates text and does not train, with this many "
                                          "positions per row for the prompt and the new tokens")
                              ->check(atLeast(1));
  verb.add_option("--rows", request.rows, "With --generate: prompts that are continued side by side")
      ->check(atLeast(1))
      ->capture_default_str()
      ->needs(generate);
  verb.add_option("--prompt-positions", request.promptPositions,
                  "With --generate: positions of a prompt that are read at a time; by default at most 128")
      ->check(atLeast(1))
      ->needs(generate);
  verb.add_flag(
          "!--no-cache", request.caches,
          "With --generate: read the whole row again for each new token instead of keeping keys and values; a check")
      ->needs(generate);
}

void dtc::addCompile(CLI::App &app) {
  auto [verb, options] = addVerb<CompileVerbOptions>(app, "compile", compileSummary, compileFooter);
  addCompileRequest(*verb, options->request);
  verb->add_option("--target", options->request.target,
                   "Processor: cpu or cpu:native (this machine's), cpu:x86-64-v3, cpu:x86-64-v4; NVIDIA GPUs: "
                   "cuda:sm_80, cuda:sm_90, cuda:sm_100, or several in one program: cuda:sm_80,sm_90")
      ->check(checkTarget)
      ->capture_default_str();
  takeSize(verb->add_option(
      "--memory-limit", options->request.memoryLimit,
      "The most bytes that a rank's arena may have, as in 16GB or 512MiB; more is an error that names what is live"));
  auto *cluster = verb->add_option("--cluster", options->cluster,
                                   "A cluster file (docs/clusters.md) on which the program must fit: a device for each "
                                   "rank, and memory");
  verb->add_flag("--too-large", options->isTooLarge,
                 "With --cluster: also compile what does not fit there, and predict nothing; used by dtc simulate")
      ->needs(cluster)
      ->group("");
  verb->add_option(
          "--schedule-effort", options->request.scheduleEffort,
          "With --cluster: how many plans are tried for an order in which ranks wait less there; 1: the simple "
          "order alone")
      ->check(atLeast(1))
      ->capture_default_str()
      ->needs(cluster);
  addAdviceOptions(*verb, options->advice);
  CLI::Option *profile =
      verb->add_option("--profile", options->profile,
                       "The folder of a run with --trace: a pipeline (mesh axis pp) is cut by what its layers took "
                       "there, whatever choices and strategy say");
  addGeneration(*verb, options->request);
  profile->excludes(verb->get_option("--generate"));
  std::vector<std::string> names;
  names.reserve(std::size(phases));
  for (const NamedPhase &phase : phases)
    names.emplace_back(phase.name);
  names.emplace_back(choicesPhase);
  verb->add_option("--compile-to", options->phase,
                   "Stop after a phase and write the module's text; or write what was chosen, for --choices")
      ->check(CLI::IsMember(names))
      ->excludes(cluster);
  verb->add_flag("--locations", options->locations, "Write each operation's place in the model too");
  verb->add_option("-o,--output", options->output,
                   "The program; with --compile-to the text, by default to the "
                   "standard output");
  verb->callback([options] {
    requireNoProgram(options->request.model);
    options->phase.empty() ? compileToProgram(*options) : compileToPhase(*options);
  });
}
