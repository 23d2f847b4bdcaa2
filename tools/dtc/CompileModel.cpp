// From the command line's arguments to a compiled program.
#include "tools/dtc/CompileModel.h"

#include "dialect/IR/Locations.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/Location.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/search/Planner.h"
#include "passes/pipelines/search/SearchOrder.h"
#include "passes/place/Presets.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/sources.h"
#include "runtime/abi/timetables.h"
#include "runtime/config/training_config.h"
#include "runtime/support/error.h"
#include "runtime/support/escape.h"
#include "runtime/support/mapped_file.h"
#include "runtime/weights/model_files.h"
#include "timing/certify/certify.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <set>

using namespace dtc;

/// With the column for a file, to show where parsing stopped.
static std::string placeText(mlir::Location location) {
  if (!mlir::isa<mlir::FileLineColLoc>(location))
    return placeOf(location);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << location;
  return text;
}

/// Keeps errors for the exception; prints warnings and wanted remarks to stderr at once.
class LoadedModel::Diagnostics {
public:
  Diagnostics(mlir::MLIRContext &context, const CompileRequest &request)
      : model(request.model), handler(&context, [this, request](mlir::Diagnostic &diagnostic) {
          std::string text = format(diagnostic);
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            errors += (errors.empty() ? "" : "\n") + text;
          else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning && request.warnings)
            tellWarning(text);
          else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark && request.remarks)
            tellNews(text);
          return mlir::success();
        }) {}

  /// Blames the input, or else the compiler, for what went wrong with `module`.
  [[noreturn]] void fail(mlir::ModuleOp module) const {
    if (!module->hasAttr(mlir::dt::module_attr::broken))
      throw Error(ExitCode::BadInput, fmt::format("{}: {}", model, errors));
    throw Error(
        ExitCode::Internal,
        fmt::format("{}: internal error: {}\nThis is a mistake in dtc, not in what it was given. Please report it "
                    "with the command, the config.json or text of the model, the strategy file if there is one, "
                    "and what dtc --version says",
                    model, errors));
  }

private:
  static std::string format(mlir::Diagnostic &diagnostic) {
    std::string place = placeText(diagnostic.getLocation());
    std::string text = (place.empty() ? "" : place + ": ") + diagnostic.str();
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      text += "\n  " + format(note);
    return text;
  }

  std::string model, errors;
  mlir::ScopedDiagnosticHandler handler;
};

/// Reading more positions at a time makes a prompt no faster: the weights are read once for this many.
static GenerationSizes generationSizes(const CompileRequest &request) {
  constexpr int64_t usual = 128;
  int64_t prompt = std::min(request.promptPositions ? request.promptPositions : usual, request.generate);
  return {request.generate, request.caches ? prompt : request.generate, request.caches};
}

ModelOptions dtc::modelOptions(const CompileRequest &request, const abi::Training &training) {
  ModelOptions options;
  options.symbols = request.symbols;
  if (request.generate) {
    options.batch = request.rows;
    options.sequence = request.generate;
    options.generation = generationSizes(request);
    return options;
  }
  options.batch = training.global_batch() / training.accumulation();
  options.sequence = training.sequence_length();
  if (training.dropout() >= 0)
    options.dropout = training.dropout();
  options.separateDocuments = training.separate_documents();
  return options;
}

static Choices readChoices(const std::string &text, const std::string &path, const Choices &given) {
  return *parseChoices(text, path, given,
                       [](const llvm::Twine &problem) { throw Error(ExitCode::BadInput, problem.str()); });
}

/// Programs older than buckets do not state a size.
static abi::BucketSize bucketSizeOf(const abi::Training &training) {
  return abi::parseBucketSize(training.bucket_bytes()).value_or(abi::BucketSize{});
}

/// The file of choices takes precedence over the settings and --timetable.
static Choices choicesOf(const CompileRequest &request, const abi::Training &training) {
  Choices choices;
  choices.timetable = request.timetable;
  choices.overlapSteps = request.overlapSteps;
  choices.bucketSize = bucketSizeOf(training);
  if (training.recompute() == abi::recomputeAuto)
    choices.recompute.clear(); // to be chosen, unless a file says it
  else if (auto how = abi::parseRecompute(training.recompute())) // older programs have none
    choices.recompute = {{"*", {{*how}}, ""}};
  if (!request.choicesText.empty())
    choices = readChoices(request.choicesText,
                          request.choicesFile.empty() ? "choices of " + request.model : request.choicesFile, choices);
  if (!request.stageLayers.empty())
    choices.layers = request.stageLayers;
  return choices;
}

/// Whether steps overlap, so that a step by itself shows nothing of how long steps take in a row.
static bool doStepsOverlap(const Choices &choices) { return overlapsSteps(choices.timetable) || choices.overlapSteps; }

void dtc::setCompileOptions(CompileOptions &options, const CompileRequest &request, const abi::Training &training) {
  options.what.generates = request.generate > 0;
  options.what.accumulation = training.accumulation();
  options.what.compute = training.compute();
  options.what.gradients = training.gradients();
  options.what.optimizer = training.optimizer();
  for (const abi::OptimizerSetting &setting : abi::findOptimizer(training.optimizer())->settings)
    options.what.settings.push_back(fmt::format("{}={}", setting.key, abi::settingOf(training, setting.key)));
  options.what.clipNorm = training.clip_norm();
  options.where.mesh = request.mesh;
  options.where.strategy = request.strategy;
  options.where.strategyText = request.strategyText;
  options.where.entry = request.entry;
  options.choices = choicesOf(request, training);
  options.what.asynchronous = !request.generate && overlapsSteps(options.choices.timetable);
  options.what.earlyUpdate = !request.generate && options.choices.overlapSteps && !options.what.asynchronous;
  options.memoryLimit = request.memoryLimit;
  options.layout = request.layout;
  options.warnsOfBubble = !request.advises;
  options.scheduleEffort = request.scheduleEffort;
  options.target = request.target == "cpu" ? "native" : request.target;
  if (constexpr std::string_view prefix = "cpu:"; options.target.starts_with(prefix))
    options.target.erase(0, prefix.size());
}

/// Programs that generate text are not yet cut into stages, nor compiled for GPUs.
static void requireCanGenerate(const CompileRequest &request, mlir::MLIRContext &context) {
  if (request.target.starts_with("cuda:"))
    throw Error(ExitCode::BadInput, fmt::format("--target {}: programs that generate (--generate) run on processors so "
                                                "far; leave the target out",
                                                request.target));
  mlir::FailureOr<mlir::dt::MeshAttr> mesh = parseMesh(
      &context, request.mesh, [](const llvm::Twine &problem) { throw Error(ExitCode::BadInput, problem.str()); });
  if (mesh->getAxisSize(mlir::dt::pipelineAxis) > 1)
    throw Error(ExitCode::BadInput, fmt::format("--mesh {}: a program that generates (--generate) has no stages of a "
                                                "pipeline; leave the axis {} out, and use tp for a model that one "
                                                "rank cannot hold",
                                                request.mesh, std::string(mlir::dt::pipelineAxis)));
}

/// The text of a strategy's file; empty where it cannot be read, which the compiler reports.
static std::string readStrategy(const std::string &strategy) {
  if (isPreset(strategy))
    return "";
  try {
    return std::string(MappedFile(strategy).text());
  } catch (const Error &) {
    return "";
  }
}

LoadedModel::LoadedModel(const CompileRequest &wanted)
    : request(wanted), training(readTraining(request.configFile, request.assignments)),
      context(mlir::MLIRContext::Threading::DISABLED),
      model(load(request.model, modelOptions(request, training), context)) {
  context.printOpOnDiagnostic(false); // an error names the place; printed operations are as long as the model
  if (request.generate)
    requireCanGenerate(request, context);
  request.strategyText = readStrategy(request.strategy);
  if (request.choicesText.empty() && !request.choicesFile.empty())
    request.choicesText = MappedFile(request.choicesFile).text();
  if (llvm::StringRef(request.timetable).ends_with(".csv"))
    request.timetable = MappedFile(request.timetable).text();
}

static Model loadProgramModel(const abi::Manifest &program, const std::string &path, const std::string &model,
                              const ModelOptions &options, mlir::MLIRContext &context) {
  if (!model.empty())
    return load(model, options, context);
  if (program.model_config_json().empty())
    throw Error(ExitCode::BadInput, path + ": was compiled from a model in text, which it does not carry; name the "
                                           "text beside it, as in --model FILE.mlir");
  return loadConfig(program.model_config_json(), path + " (its config.json)", options, context);
}

std::string dtc::choicesWithoutOrder(const abi::Manifest &program, const std::string &path) {
  Choices choices = readChoices(program.choices(), "choices of " + path, {});
  choices.order.clear();
  choices.buckets.clear();
  choices.bucketSize = bucketSizeOf(program.training());
  return printChoices(choices, program.stages_size() > 1);
}

static CompileRequest requestOf(const abi::Manifest &program, const std::string &path, const std::string &model,
                                const std::string &entry) {
  CompileRequest request;
  request.model = model.empty() ? path : model;
  request.mesh = meshText(program.mesh());
  request.strategy = program.strategy();
  request.strategyText = program.strategy_text();
  request.timetable = program.timetable();
  request.choicesText = program.choices();
  if (!entry.empty())
    request.choicesText = choicesWithoutOrder(program, path);
  request.target = program.target();
  request.entry = entry;
  request.warnings = false; // they were shown when the program was compiled
  request.generate = program.generation().capacity();
  request.rows = program.generation().rows();
  request.promptPositions = program.generation().prompt();
  request.caches = !abi::timetableOf(program.roles(0), abi::generationTimetable).period().empty();
  return request;
}

LoadedModel::LoadedModel(const abi::Manifest &program, const std::string &path, const std::string &modelPath,
                         const std::string &entry)
    : request(requestOf(program, path, modelPath, entry)), training(program.training()),
      context(mlir::MLIRContext::Threading::DISABLED),
      model(loadProgramModel(program, path, modelPath, modelOptions(request, training), context)) {
  context.printOpOnDiagnostic(false);
}

/// Used where the device is unknown: one core, or a GPU of 2022. Only the relative costs of kernels matter.
static timing::Device usualDevice(const std::string &target) {
  bool isGpu = target.starts_with("cuda:");
  timing::Device device;
  auto add = [&](const char *type, double flops) {
    timing::Peak &peak = *device.add_peaks();
    peak.set_type(type);
    peak.set_flops(flops);
  };
  add("f32", isGpu ? 67e12 : 260e9);
  add("bf16", isGpu ? 990e12 : 520e9);
  add("f16", isGpu ? 990e12 : 260e9);
  device.set_memory_bandwidth(isGpu ? 3.35e12 : 38e9);
  device.set_launch_seconds(isGpu ? 2e-6 : 2e-7);
  return device;
}

/// Makes the choices left open.
void LoadedModel::choose(CompileOptions &options) {
  if (options.choices.timetable == searchedTimetable)
    searchTimetable(options);
  else
    chooseStages(options);
  chooseRecomputed(options);
}

static bool isPipeline(const CompileRequest &request, mlir::MLIRContext &context) {
  mlir::FailureOr<mlir::dt::MeshAttr> mesh = parseMesh(&context, request.mesh, [](const llvm::Twine &) {});
  return succeeded(mesh) && mesh->getAxisSize(mlir::dt::pipelineAxis) > 1;
}

/// What plans warn of, compiling warns of.
static CompileRequest withoutWarnings(CompileRequest request) {
  request.warnings = request.remarks = false;
  return request;
}

/// The timetable of a pipeline, with its cut; without a pipeline it does not matter.
void LoadedModel::searchTimetable(CompileOptions &options) {
  if (request.generate || !isPipeline(request, context)) {
    options.choices.timetable = CompileRequest().timetable;
    return;
  }
  if (request.profile)
    throw Error(ExitCode::BadInput, "--timetable auto cuts the model by predicted costs, --profile by measured ones: "
                                    "name a timetable, as in --timetable 1f1b, or leave --profile out");
  if (options.choices.overlapSteps)
    throw Error(ExitCode::BadInput, "--timetable auto compares what a step takes by itself, and with --overlap-steps "
                                    "steps overlap: name a timetable, as in --timetable zbv");
  if (!request.layout)
    throw Error(ExitCode::BadInput, "--timetable auto compares what a step takes with each timetable: say dtc compile "
                                    "--cluster FILE, on which that depends, or name a timetable, as in --timetable "
                                    "1f1b");
  Diagnostics diagnostics(context, withoutWarnings(request));
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  mlir::FailureOr<ChosenTimetable> found = mlir::failure();
  if (planner)
    found = chooseTimetable(*planner, options.choices, training.accumulation(), request.memoryLimit, *request.layout);
  if (failed(found))
    diagnostics.fail(*model.module);
  timetable = *found;
  options.choices = timetable->choices;
}

ProfiledStages LoadedModel::chooseByProfile(const CompileOptions &options, const StageProfile &profile) {
  if (doStepsOverlap(options.choices))
    throw Error(ExitCode::BadInput, "no cut is chosen by a profile where steps overlap (--timetable pipedream, "
                                    "--overlap-steps): write the cut (layers, in a file for --choices)");
  Diagnostics diagnostics(context, withoutWarnings(request));
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  mlir::FailureOr<ProfiledStages> found = mlir::failure();
  if (planner)
    found = balanceByProfile(*planner, options.choices, profile, request.memoryLimit, usualDevice(request.target),
                             request.layout);
  if (failed(found))
    diagnostics.fail(*model.module);
  return std::move(*found);
}

ProfiledStages LoadedModel::stagesByProfile(const StageProfile &profile) {
  CompileOptions options;
  setCompileOptions(options, request, training);
  return chooseByProfile(options, profile);
}

/// Where a pipeline is cut. Without a cluster or a profile, or where the user says it, it can only be remarked on.
/// Where steps overlap, plans are not compared yet.
void LoadedModel::chooseStages(CompileOptions &options) {
  if (request.profile) {
    if (!isPipeline(request, context))
      throw Error(ExitCode::BadInput,
                  fmt::format("--profile chooses where a pipeline is cut, and --mesh {} has no axis {}", request.mesh,
                              std::string(mlir::dt::pipelineAxis)));
    profiled = chooseByProfile(options, *request.profile);
    options.choices = profiled->cut.choices;
    return;
  }
  bool isAsked = !request.generate && (request.layout || request.remarks);
  if (!isAsked || !isPipeline(request, context) || doStepsOverlap(options.choices))
    return;
  Diagnostics diagnostics(context, withoutWarnings(request));
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  if (!planner)
    diagnostics.fail(*model.module);
  if (request.layout) {
    mlir::FailureOr<std::optional<BalancedStages>> found =
        balanceStages(*planner, options.choices, request.memoryLimit, *request.layout);
    if (failed(found))
      diagnostics.fail(*model.module);
    balanced = *found;
    if (balanced)
      options.choices = balanced->choices;
  }
  if (!request.remarks || balanced)
    return;
  mlir::FailureOr<std::string> uneven =
      findUnevenStages(*planner, options.choices, usualDevice(request.target), request.layout);
  if (failed(uneven))
    diagnostics.fail(*model.module);
  Diagnostics shown(context, request);
  if (!uneven->empty())
    model.module->emitRemark() << *uneven;
}

/// What is recomputed and which layers share gathers, so that the memory limit is met.
void LoadedModel::chooseRecomputed(CompileOptions &options) {
  if (!options.choices.recompute.empty() || request.generate)
    return;
  if (request.memoryLimit == 0)
    throw Error(ExitCode::BadInput,
                fmt::format("memory.recompute is \"{}\", which chooses what fits into a limit: say --memory-limit, as in "
                            "--memory-limit 16GB, or write one of {}",
                            abi::recomputeAuto, abi::recomputeNames));
  Diagnostics diagnostics(context, request);
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  mlir::FailureOr<ChosenRecompute> found = mlir::failure();
  if (planner)
    found = chooseRecompute(*planner, options.choices, request.memoryLimit,
                            request.layout ? request.layout->deviceOf(0) : usualDevice(request.target), request.layout);
  if (failed(found))
    diagnostics.fail(*model.module);
  chosen = *found;
  options.choices = chosen->choices;
}

void LoadedModel::runPhases(Phase last) {
  context.enableMultithreading(); // from here on functions are processed in parallel
  CompileOptions options;
  setCompileOptions(options, request, training);
  choose(options);
  Diagnostics diagnostics(context, request);
  if (failed(dtc::runPhases(*model.module, options, last)))
    diagnostics.fail(*model.module);
}

/// Proves it once, for everybody who runs the program. Orders that a user may choose were checked before, so a failure
/// here is our own.
static void addCertificate(abi::Manifest &manifest, const std::string &model) {
  try {
    *manifest.mutable_certificate() = timing::certify(manifest);
  } catch (const Error &error) {
    throw Error(ExitCode::Internal, fmt::format("{}: {}. This is a mistake in dtc, not in what it was given: please "
                                                "report it",
                                                model, error.what()));
  }
}

CompiledProgram LoadedModel::compile(bool generateCode) {
  context.enableMultithreading(); // from here on functions are processed in parallel
  CompileOptions options;
  setCompileOptions(options, request, training);
  std::vector<abi::ModelFile> files; // before the work, since a file may be unreadable
  if (!model.configJson.empty())
    files = readModelFiles(request.model, [](const std::string &text) { tellWarning(text); });
  choose(options);
  Diagnostics diagnostics(context, request);
  mlir::FailureOr<CompiledProgram> program = dtc::compile(*model.module, options, generateCode, &compiled);
  if (failed(program))
    diagnostics.fail(*model.module);

  abi::Manifest &manifest = program->manifest;
  addCertificate(manifest, request.model);
  if (!model.weightsDirectory.empty())
    manifest.set_model_directory(std::filesystem::absolute(model.weightsDirectory).lexically_normal());
  manifest.set_model_config_json(model.configJson);
  manifest.set_model_defaults_json(model.configDefaults);
  manifest.mutable_model_files()->Add(files.begin(), files.end());
  *manifest.mutable_training() = training;
  const Choices &made = program->searched ? program->searched->choices : options.choices;
  manifest.mutable_training()->set_bucket_bytes(abi::textOf(made.bucketSize));
  if (const std::vector<RecomputeRule> &rules = made.recompute;
      !chosen && rules.size() == 1 && rules.front().layers == "*" && rules.front().runs.size() == 1)
    manifest.mutable_training()->set_recompute(abi::nameOf(rules.front().runs.front().how));
  if (request.generate) {
    GenerationSizes sizes = generationSizes(request);
    manifest.mutable_generation()->set_rows(request.rows);
    manifest.mutable_generation()->set_capacity(sizes.capacity);
    manifest.mutable_generation()->set_prompt(sizes.prompt);
    manifest.mutable_training()->set_sequence_length(sizes.capacity);
    return std::move(*program);
  }
  for (const abi::Role &role : manifest.roles())
    for (const abi::Tensor &tensor : role.tensors()) // where the settings leave the length to the model
      if (abi::isOfSamples(tensor))
        manifest.mutable_training()->set_sequence_length(tensor.global_shape(1));
  return std::move(*program);
}

std::vector<RankedPlan> LoadedModel::rankOrders(const timing::Layout &layout, uint64_t effort, size_t enough) {
  CompileOptions options;
  setCompileOptions(options, request, training);
  if (doStepsOverlap(options.choices))
    throw Error(ExitCode::BadInput, "no order is looked for where steps overlap (--timetable pipedream, "
                                    "--overlap-steps): orders are compared by what a step takes by itself");
  Diagnostics diagnostics(context, request);
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  mlir::FailureOr<SearchedOrder> searched = mlir::failure();
  if (planner)
    searched = searchOrder(*planner, options.choices, layout, {effort, options.memoryLimit, enough});
  if (failed(searched))
    diagnostics.fail(*model.module);
  return std::move(searched->tried);
}

std::string LoadedModel::describeChoices() {
  CompileOptions options;
  setCompileOptions(options, request, training);
  choose(options);
  Diagnostics diagnostics(context, request);
  std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
  mlir::FailureOr<Plan> plan = mlir::failure();
  if (planner)
    plan = planner->plan(options.choices);
  if (failed(plan))
    diagnostics.fail(*model.module);
  Choices choices = options.choices;
  choices.rows.insert(choices.rows.end(), plan->rows.begin(), plan->rows.end());
  choices.buckets = plan->buckets;
  choices.bucketSize = {};
  std::string text = printChoices(choices, plan->roles.size() > 1) +
                     "\n# The commands that an order may move, in each list; equal layers are listed once.\n";
  for (const PlannedRole &role : plan->roles)
    for (size_t list = 0; list < role.orders.size(); ++list) {
      const FlatFunction &function = role.role->functions[list];
      text += "# " + function.name + "\n";
      std::set<std::string> said;
      for (int number : role.orders[list])
        if (const std::string &name = function.commands[number].name; !name.empty() && said.insert(name).second)
          text += "#   " + name + "\n";
    }
  return text;
}
