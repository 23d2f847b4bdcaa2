// Clones, lowers, and asks.
#include "passes/pipelines/search/Planner.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/Stages.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/keep/ParameterRules.h"
#include "passes/keep/recompute/RecomputePlan.h"
#include "passes/lower/Targets.h"
#include "passes/pipelines/Phases.h"
#include "passes/pipelines/When.h"
#include "passes/schedule/ReadStep.h"
#include "passes/schedule/emit/EmitManifest.h"
#include "passes/schedule/order/Order.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/Threading.h"
#include "runtime/abi/manifest_version.h"
#include "runtime/support/suggest.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

PlannedWork &PlannedWork::operator+=(const PlannedWork &other) {
  flops += other.flops;
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  sent += other.sent;
  return *this;
}

Planner::Planner(ModuleOp model, const CompileOptions &options) : model(model), options(options) {}

LogicalResult Planner::markBroken(ModuleOp clone) {
  if (clone->hasAttr(module_attr::broken))
    model->setAttr(module_attr::broken, clone->getAttr(module_attr::broken));
  return failure();
}

std::unique_ptr<Planner> Planner::create(ModuleOp model, const CompileOptions &options) {
  std::unique_ptr<Planner> planner(new Planner(model, options));
  FailureOr<double> flops = dtc::flopsPerToken(model);
  if (failed(flops))
    return nullptr;
  planner->flopsPerToken = *flops;
  return planner->runPlacing(Phase::What) ? std::move(planner) : nullptr;
}

std::unique_ptr<Planner> Planner::place(ModuleOp step, double flopsPerToken, const CompileOptions &options) {
  std::unique_ptr<Planner> planner(new Planner(step, options));
  planner->flopsPerToken = flopsPerToken;
  return planner->runPlacing(Phase::Where) ? std::move(planner) : nullptr;
}

/// The phases from `first` to *where*, on a clone.
bool Planner::runPlacing(Phase first) {
  placed = model.clone();
  if (succeeded(runPhases(*placed, options, options.choices, first, Phase::Where, /*isForProgram=*/true)))
    return true;
  (void)markBroken(*placed);
  return false;
}

/// Checks what no pass would notice: patterns that fit nothing, and stages where there are none.
LogicalResult Planner::check(const Choices &choices) {
  int64_t ranks = ranksAlongPipeline(*placed);
  bool isFile = ranks > 1 && isCsv(choices.timetable);
  if (!choices.layers.empty() && !isFile &&
      (ranks == 1 ? choices.layers.size() != 1 : choices.layers.size() % static_cast<size_t>(ranks) != 0))
    return model.emitError("choices: layers says how many layers each of ")
           << choices.layers.size() << " stages has, and the mesh has " << ranks << " (axis '" << pipelineAxis << "')";
  if (!stagesFor(choices))
    return failure();
  std::vector<std::string> names;
  if (auto parameters = model->getAttrOfType<ArrayAttr>(module_attr::parameters))
    for (auto parameter : parameters.getAsRange<ParamAttr>())
      names.push_back(parameter.getName().str());
  std::vector<std::string> classes;
  for (const PlannedLayer &layer : layers(choices))
    if (std::string name = layer.list + ".*"; !llvm::is_contained(classes, name))
      classes.push_back(name);
  auto checkLayers = [&](StringRef what, const std::string &layers, const std::string &where) -> LogicalResult {
    auto pattern = llvm::GlobPattern::create(layers);
    if (!pattern) {
      llvm::consumeError(pattern.takeError()); // the passes complain
      return success();
    }
    if (pattern->match("") || llvm::any_of(classes, [&](StringRef name) { return pattern->match(name); }))
      return success();
    return model.emitError(where) << ": " << what << ": no layers are called '" << layers << "'"
                                  << didYouMean(layers, classes);
  };
  for (const RecomputeRule &rule : choices.recompute)
    if (failed(checkLayers("recompute", rule.layers, rule.where)))
      return failure();
  for (const SplitRule &rule : choices.split)
    if (failed(checkLayers("split", rule.pattern, rule.where)))
      return failure();
  auto checkParameters = [&](const std::string &parameters, const std::string &where) -> LogicalResult {
    auto pattern = llvm::GlobPattern::create(parameters);
    if (!pattern)
      return model.emitError(where) << ": '" << parameters << "': " << llvm::toString(pattern.takeError());
    if (llvm::any_of(names, [&](StringRef name) { return pattern->match(name); }))
      return success();
    return model.emitError(where) << ": no parameter is called '" << parameters << "'" << didYouMean(parameters, names);
  };
  for (const GatherRule &rule : choices.gathers)
    if (failed(checkParameters(rule.parameters, rule.where)))
      return failure();
  for (const ParameterRule &rule : choices.rows)
    if (failed(checkParameters(rule.parameters, rule.where)))
      return failure();
  for (const SplitRule &rule : choices.splitGradients)
    if (failed(checkParameters(rule.pattern, rule.where)))
      return failure();
  return success();
}

/// A module without functions that says which stages these choices lead to; null after an error.
OwningOpRef<ModuleOp> Planner::stagesFor(const Choices &choices) const {
  ModuleOp module = placed.get();
  OwningOpRef<ModuleOp> cut = ModuleOp::create(module.getLoc());
  (*cut)->setAttrs(module->getAttrDictionary());
  if (failed(setStages(*cut, options, choices)))
    return nullptr;
  return cut;
}

std::vector<PlannedLayer> Planner::layers(const Choices &choices) const {
  ModuleOp module = placed.get();
  llvm::SetVector<LayerAttr> met;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.front())
      if (LayerAttr layer = marksOf(&op).layer)
        met.insert(layer);
  std::vector<PlannedLayer> layers;
  OwningOpRef<ModuleOp> cut = stagesFor(choices);
  SmallVector<int64_t> rankOf, stageOf;
  if (cut) {
    rankOf = stageRanksOf(*cut);
    stageOf = stagesOfLayers(*cut, static_cast<int64_t>(met.size()));
  }
  for (auto [index, layer] : llvm::enumerate(met)) // planning reports other numbers of layers
    layers.push_back(
        {layer.getList().str(), index < stageOf.size() ? static_cast<size_t>(rankOf[stageOf[index]]) : 0,
         layer.getNumber()});
  return layers;
}

FailureOr<PlannedCut> Planner::cut(const Choices &choices) const {
  OwningOpRef<ModuleOp> module = stagesFor(choices);
  if (!module)
    return failure();
  PlannedCut cut;
  for (int64_t rank : stageRanksOf(*module))
    cut.rankOf.push_back(rank);
  cut.isSaid = (*module)->hasAttr(module_attr::stageLayers);
  for (int64_t stage : stagesOfLayers(*module, static_cast<int64_t>(layers(choices).size()))) {
    cut.layers.resize(cut.rankOf.size());
    ++cut.layers[static_cast<size_t>(stage)];
  }
  return cut;
}

std::set<std::string> Planner::gatheringLists(const Choices &choices) const {
  ParameterRules<std::vector<GatherRun>> rules;
  for (const GatherRule &rule : choices.gathers)
    rules.add(rule.parameters, rule.runs);
  std::set<std::string> lists;
  ModuleOp module = placed.get();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      continue;
    for (const GatheredState &gather : findGatheredState(function.front()))
      if (LayerAttr layer = marksOf(gather.steps.front()).layer) {
        StringRef name = portOf(gather.stored).getName().getValue(), list = layer.getList();
        if (name.starts_with((list + ".").str()) && !rules.of(name))
          lists.insert(list.str());
      }
  }
  return lists;
}

/// A clone, after *keep* and *how*.
FailureOr<OwningOpRef<ModuleOp>> Planner::lower(const Choices &choices, bool isLast, bool isForProgram) {
  if (failed(check(choices)))
    return failure();
  OwningOpRef<ModuleOp> module = isLast ? std::move(placed) : OwningOpRef<ModuleOp>(placed->clone());
  if (failed(runPhases(*module, options, choices, Phase::Keep, Phase::How, isForProgram)))
    return markBroken(*module);
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> Planner::beforeRecompute(const Choices &choices) {
  OwningOpRef<ModuleOp> module = placed->clone();
  if (failed(runBeforeRecompute(*module, options, choices)))
    return markBroken(*module);
  return module;
}

static std::string keyOf(Choices choices) {
  choices.order.clear();
  return printChoices(choices, /*isPipeline=*/true);
}

/// For which gradients rows are gathered, where nobody chose.
static std::vector<ParameterRule> decidedRows(ModuleOp module) {
  std::vector<ParameterRule> rules;
  if (auto decided = module->getAttrOfType<ArrayAttr>(module_attr::rows))
    for (auto rule : decided.getAsRange<StringAttr>()) {
      auto [parameters, how] = rule.getValue().rsplit('=');
      rules.push_back({parameters.str(), how.str(), ""});
    }
  return rules;
}

/// The most memory outside the arena that a launch or a library call of the role works in.
static uint64_t scratchOf(const ReadRole &read, Kernels &kernels, const Target &target, MeshAttr mesh) {
  int64_t most = 0;
  for (const ReadRole::Function &function : read.functions)
    for (Operation *op : function.commands)
      if (auto launch = dyn_cast<LaunchOp>(op)) {
        most = std::max(most, kernels.interfaceOf(launch).scratchBytes);
      } else if (auto library = dyn_cast<LibraryOpInterface>(op); library && target.libraryTakesScratch()) {
        std::string why;
        FailureOr<LibraryCall> call = library.getLibraryCall(function.layouts->layoutsOf(op), mesh);
        if (succeeded(call))
          if (std::optional<LibraryKernel> kernel = target.findLibraryKernel(*call, why))
            most = std::max(most, kernel->scratchBytes);
      }
  return static_cast<uint64_t>(most);
}

FailureOr<std::shared_ptr<Planner::Step>> Planner::stepFor(const Choices &choices) {
  std::string key = keyOf(choices);
  if (auto known = steps.find(key); known != steps.end())
    if (std::shared_ptr<Step> step = known->second.lock())
      return step;
  const Target *target = requireTarget(model, options.target);
  if (!target)
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> module = lower(choices, /*isLast=*/false, /*isForProgram=*/false);
  if (failed(module))
    return failure();
  auto step = std::make_shared<Step>();
  if (failed(runLists(**module, options, choices, &step->buckets)))
    return markBroken(**module);
  Kernels kernels(**module);
  auto mesh = (**module)->getAttrOfType<MeshAttr>(module_attr::mesh);
  step->rows = decidedRows(**module);
  for (auto [role, functions] : llvm::enumerate(functionsOfRoles(**module))) {
    ReadRole read = readRole(**module, kernels, static_cast<int64_t>(role), functions);
    if (failed(describeCommands(read, kernels)))
      return failure();
    step->scratch = std::max(step->scratch, scratchOf(read, kernels, *target, mesh));
    step->roles.push_back(std::make_unique<Role>(std::move(read.role)));
  }
  steps[key] = step;
  remember(step);
  return step;
}

size_t Planner::Step::commands() const {
  size_t sum = 0;
  for (const std::unique_ptr<Role> &role : roles)
    for (const FlatFunction &function : role->flat.functions)
      sum += function.commands.size();
  return sum;
}

void Planner::remember(std::shared_ptr<Step> step) {
  constexpr size_t most = 1 << 19; // some hundred MB
  commandsRemembered += step->commands();
  remembered.push_back(std::move(step));
  for (; commandsRemembered > most; remembered.pop_front())
    commandsRemembered -= remembered.front()->commands();
}

void Planner::forget() {
  remembered.clear();
  commandsRemembered = 0;
  std::erase_if(steps, [](const auto &step) { return step.second.expired(); });
}

/// The work of what runs in a training step.
static std::map<abi::Direction, PlannedWork> workOf(const FlatRole &role) {
  std::vector<int64_t> times(role.functions.size());
  for (const FlatEntry &entry : role.step)
    ++times[entry.function];
  std::map<abi::Direction, PlannedWork> work;
  for (auto [function, count] : llvm::zip_equal(role.functions, times))
    for (const FlatCommand &command : function.commands)
      if (count > 0 && (command.kind == FlatCommand::Kind::Launch || command.kind == FlatCommand::Kind::Start)) {
        auto runs = static_cast<double>(count);
        work[command.direction] += {runs * command.work.flops(), runs * static_cast<double>(command.work.bytes_read()),
                                    runs * static_cast<double>(command.work.bytes_written()), runs * command.sent};
      }
  return work;
}

abi::Mesh Planner::mesh() { return emitMesh((*placed)->getAttrOfType<MeshAttr>(module_attr::mesh)); }

bool Planner::gathersState() {
  return llvm::any_of(placed->getOps<func::FuncOp>(), [](func::FuncOp function) {
    return !function.isDeclaration() && !findGatheredState(function.front()).empty();
  });
}

FailureOr<Plan> Planner::plan(const Choices &choices) {
  FailureOr<std::shared_ptr<Step>> step = stepFor(choices);
  if (failed(step))
    return failure();
  std::vector<const FlatRole *> roles;
  for (const std::unique_ptr<Role> &role : (*step)->roles)
    roles.push_back(&role->flat);
  std::vector<std::vector<FlatOrder>> orders;
  if (std::string problem = applyOrder(choices.order, roles, orders); !problem.empty())
    return model.emitError(problem);
  Plan plan;
  plan.rows = (*step)->rows;
  plan.buckets = (*step)->buckets;
  plan.scratch = (*step)->scratch;
  for (auto [role, ofRole] : llvm::zip_equal((*step)->roles, orders)) {
    role->planner.plan(ofRole);
    PlannedRole &planned = plan.roles.emplace_back();
    planned = {{*step, &role->flat}, std::move(ofRole), role->planner.arena(), role->planner.memoryUse(), {}, {}, {}};
    for (size_t port = 0; port < role->flat.ports.size(); ++port)
      planned.portOffsets.push_back(role->planner.offsetOfPort(static_cast<int>(port)));
    for (size_t function = 0; function < role->flat.functions.size(); ++function) {
      std::vector<uint64_t> &offsets = planned.offsets.emplace_back();
      for (size_t value = 0; value < role->flat.functions[function].valueBytes.size(); ++value)
        offsets.push_back(role->planner.offsetOf(function, static_cast<int>(value)));
    }
    planned.work = workOf(role->flat);
  }
  return plan;
}

/// The choices, including what the compiler decided where nothing was chosen.
static std::string choicesText(Choices choices, std::vector<BucketRule> buckets, ModuleOp module) {
  llvm::append_range(choices.rows, decidedRows(module));
  choices.buckets = std::move(buckets);
  choices.bucketSize = {};
  choices.crossing.clear();
  if (auto crossing = module->getAttrOfType<ArrayAttr>(module_attr::crossing))
    for (auto way : crossing.getAsRange<StringAttr>())
      choices.crossing.push_back(way.str());
  choices.layers.clear();
  if (auto stages = module->getAttrOfType<ArrayAttr>(module_attr::stages))
    for (auto layers : stages.getAsRange<ArrayAttr>())
      choices.layers.push_back(static_cast<int64_t>(layers.size()));
  return printChoices(choices, choices.layers.size() > 1);
}

FailureOr<CompiledProgram> Planner::compile(const Choices &choices, bool generateCode, bool isLast) {
  const Target *target = requireTarget(model, options.target);
  if (!target)
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> lowered = lower(choices, isLast, /*isForProgram=*/true);
  if (failed(lowered))
    return failure();
  ModuleOp module = **lowered;
  // Kernels are final here: their code is generated while the rest is compiled.
  std::vector<BucketRule> buckets;
  FailureOr<std::future<TargetCode>> code =
      target->startCompiling(generateCode ? llvm::to_vector(module.getOps<KernelOp>()) : SmallVector<KernelOp>());
  if (failed(code) ||
      failed(runPhases(module, options, choices, Phase::When, Phase::When, /*isForProgram=*/true, &buckets)))
    return markBroken(module);
  // Nothing changes any more: one task checks what the other writes.
  CompiledProgram program;
  LogicalResult isVerified = failure(), isWritten = failure();
  parallelFor(module.getContext(), 0, 2, [&](size_t step) {
    if (step == 0)
      isVerified = verifyWhen(module, options);
    else
      isWritten = emitManifest(module, program.manifest);
  });
  if (failed(isVerified)) {
    (void)dtc::markBroken(module);
    return markBroken(module);
  }
  if (failed(isWritten))
    return failure();
  program.manifest.set_version(ManifestVersion);
  program.manifest.set_target(target->getName().str());
  for (const std::string &feature : target->getFeatures())
    program.manifest.add_target_features(feature);
  program.manifest.set_timetable(choices.timetable);
  program.manifest.set_choices(choicesText(choices, std::move(buckets), module));
  program.manifest.set_strategy(options.where.strategy);
  program.manifest.set_strategy_text(options.where.strategyText);
  program.manifest.set_flops_per_token(flopsPerToken);
  TargetCode generated = code->get();
  if (!generated.error.empty()) {
    module.emitError("generated kernels cannot be compiled: ") << generated.error;
    (void)dtc::markBroken(module);
    return markBroken(module);
  }
  addCode(std::move(generated), program);
  if (isLast)
    placed = std::move(*lowered);
  return program;
}

} // namespace dtc
