// From a model's module to a program.
#include "passes/pipelines/Compile.h"
#include "passes/analysis/Stages.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/lower/Targets.h"
#include "passes/pipelines/How.h"
#include "passes/pipelines/Keep.h"
#include "passes/pipelines/Phases.h"
#include "passes/pipelines/When.h"
#include "passes/pipelines/search/Planner.h"
#include "passes/pipelines/search/SearchOrder.h"
#include "passes/schedule/emit/EmitCommands.h"
#include "passes/schedule/emit/EmitManifest.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/abi/mesh.h"
#include "runtime/support/error.h"
#include "timing/cost/cost.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

const Target *requireTarget(ModuleOp module, const std::string &name) {
  std::string why;
  const Target *target = findTarget(name, why);
  if (!target)
    module.emitError("target '") << name << "': " << why;
  return target;
}

/// False for an unknown target, which is reported where the phase "how" needs it.
static bool keepsCopies(const std::string &target) {
  std::string why;
  const Target *found = findTarget(target, why);
  return found && found->keepsCopies();
}

LogicalResult markBroken(ModuleOp module) {
  module->setAttr(module_attr::broken, UnitAttr::get(module.getContext()));
  return failure();
}

namespace {
/// Notices when the contract that closes a phase does not hold. The one of "what" does not count: it judges models too.
struct ContractWatch : PassInstrumentation {
  explicit ContractWatch(ModuleOp module) : module(module) {}
  void runAfterPassFailed(Pass *pass, Operation *) override {
    StringRef name = pass->getArgument();
    if (name.starts_with("dt-verify-") && name != "dt-verify-what")
      (void)markBroken(module);
  }
  ModuleOp module;
};
} // namespace

/// The callers verify operations one by one, at the end. Only dtc-opt does so after each pass: it takes a quarter of a
/// compilation.
static LogicalResult runPasses(ModuleOp module, const CompileOptions &options,
                               function_ref<void(OpPassManager &)> build) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  manager.addInstrumentation(std::make_unique<ContractWatch>(module));
  build(manager);
  if (options.configure)
    options.configure(manager);
  return manager.run(module);
}

/// The rules in the form that passes take.
static std::vector<std::string> rulesText(const std::vector<ParameterRule> &rules) {
  std::vector<std::string> texts;
  for (const ParameterRule &rule : rules)
    texts.push_back(rule.parameters + "=" + rule.how);
  return texts;
}

static std::vector<std::string> rulesText(const std::vector<GatherRule> &rules) {
  std::vector<std::string> texts;
  for (const GatherRule &rule : rules)
    texts.push_back(rule.parameters + "=" + printGatherRuns(rule.runs));
  return texts;
}

static std::vector<std::string> rulesText(const std::vector<SplitRule> &rules) {
  std::vector<std::string> texts;
  for (const SplitRule &rule : rules)
    texts.push_back(rule.pattern + "=" + std::to_string(rule.parts));
  return texts;
}

static void setOptions(KeepOptions &keep, const CompileOptions &options, const Choices &choices) {
  keep.accumulation = options.what.accumulation;
  keep.generates = options.what.generates;
  keep.copies = options.copies.value_or(keepsCopies(options.target));
  keep.gatherAhead = choices.gatherAhead;
  keep.gathers = rulesText(choices.gathers);
  keep.rows = rulesText(choices.rows);
  std::vector<std::string> recompute;
  for (const RecomputeRule &rule : choices.recompute)
    recompute.push_back(rule.layers + "=" + printRecomputeRuns(rule.runs));
  keep.recompute = recompute;
  keep.split = rulesText(choices.split);
  keep.splitGradients = rulesText(choices.splitGradients);
}

static void setOptions(WhenOptions &when, const CompileOptions &options, const Choices &choices) {
  when.memoryLimit = options.memoryLimit;
  when.accumulation = options.what.accumulation;
  when.timetable = choices.timetable;
  when.overlapSteps = choices.overlapSteps;
  when.warnsOfBubble = options.warnsOfBubble;
  when.gatherAhead = choices.gatherAhead;
}

static BucketOptions bucketOptions(ModuleOp module, const CompileOptions &options, const Choices &choices,
                                   std::vector<BucketRule> *chosen) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  return {choices.buckets, choices.bucketSize,
          options.layout ? costsOn(*options.layout, emitMesh(mesh)) : assumedCosts(), chosen};
}

/// On the links between the ranks that have coordinate 0 on all other axes; those of other ranks are like them.
static CrossingCosts crossingCosts(ModuleOp module, const CompileOptions &options) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  if (!options.layout || !mesh || ranksAlongPipeline(module) == 1)
    return {};
  abi::Group alongPipeline;
  emitAxis(AxisRefAttr::whole(StringAttr::get(module.getContext(), pipelineAxis)), mesh, *alongPipeline.add_axes());
  CrossingCosts costs;
  costs.send = [layout = options.layout,
                ranks = Mesh(emitMesh(mesh)).group(0, alongPipeline).ranks](int64_t from, int64_t to, double bytes) {
    int level = layout->levelBetween(ranks[static_cast<size_t>(from)], ranks[static_cast<size_t>(to)]);
    return timing::transferCost(layout->cluster(), level, bytes).seconds;
  };
  costs.gather = [mesh, ofMove = costsOn(*options.layout, emitMesh(mesh)).of](ArrayRef<AxisRefAttr> axes,
                                                                              RankedTensorType whole) {
    FlatMove move;
    move.kind = abi::Collective::ALL_GATHER;
    move.type = elementTypeOf(whole).type;
    for (AxisRefAttr axis : axes)
      emitAxis(axis, mesh, *move.group.add_axes());
    StartCost cost = ofMove(move, static_cast<double>(bytesOf(whole)));
    return cost.latency + cost.moving;
  };
  return costs;
}

/// Sets how what crosses each cut travels, where the choices say so.
static LogicalResult setCrossing(ModuleOp module, const Choices &choices) {
  size_t cuts = stageRanksOf(module).size() - 1;
  if (choices.crossing.empty())
    return success();
  if (choices.crossing.size() != 1 && choices.crossing.size() != cuts)
    return module.emitError("choices: crossing says how what crosses each of ")
           << choices.crossing.size() << " cuts travels, and a pipeline of " << cuts + 1 << " stages has " << cuts
           << "; say it for each of them, or once for all";
  SmallVector<StringRef> ways(cuts);
  for (auto [cut, way] : llvm::enumerate(ways))
    way = choices.crossing[choices.crossing.size() == 1 ? 0 : cut];
  module->setAttr(module_attr::crossing, Builder(module.getContext()).getStrArrayAttr(ways));
  return success();
}

/// Ranks are to update before they know the norm of all gradients.
static LogicalResult setEarlyUpdate(ModuleOp module, const CompileOptions &options, int64_t ranks) {
  if (ranks == 1)
    return module.emitError(
        "overlap_steps: the steps of a pipeline overlap, and there is none: give the mesh an axis pp, or "
        "leave it out");
  if (options.what.accumulation == 1)
    return module.emitError(
        "overlap_steps: a step has one micro-batch, and nothing of the next one can begin before it has "
        "ended; set accumulation to 2 or more");
  if (!options.what.earlyUpdate)
    return module.emitError("overlap_steps: the module's update waits for the norm (early-update)");
  module->setAttr(module_attr::earlyUpdate, UnitAttr::get(module.getContext()));
  return success();
}

LogicalResult setStages(ModuleOp module, const CompileOptions &options, const Choices &choices) {
  Builder builder(module.getContext());
  if (!choices.layers.empty())
    module->setAttr(module_attr::stageLayers, builder.getDenseI64ArrayAttr(choices.layers));
  int64_t ranks = ranksAlongPipeline(module);
  auto layers = module->getAttrOfType<DenseI64ArrayAttr>(module_attr::stageLayers);
  if (std::string problem = findUnknownTimetable(choices.timetable); !problem.empty())
    return module.emitError(problem);
  if (options.what.generates)
    return success();
  if (overlapsSteps(choices.timetable)) {
    if (choices.overlapSteps)
      return module.emitError("overlap_steps: ") << choices.timetable << " overlaps steps in its own way; leave it out";
    std::string misfit =
        findOverlapMisfit(choices.timetable, {.ranks = ranks,
                                              .stages = layers ? static_cast<int64_t>(layers.size()) : 0,
                                              .microBatches = options.what.accumulation});
    if (!misfit.empty())
      return module.emitError(misfit);
    if (!options.what.asynchronous)
      return module.emitError(choices.timetable) << ": the module's update waits for all stages (asynchronous)";
    return setCrossing(module, choices);
  }
  if (choices.overlapSteps && failed(setEarlyUpdate(module, options, ranks)))
    return failure();
  if (ranks == 1)
    return success();
  try {
    timetables::Timetable timetable = timetableFor(
        choices.timetable,
        {.ranks = ranks, .stages = layers ? layers.size() : 0, .microBatches = options.what.accumulation});
    if (!llvm::equal(timetable.rankOf, llvm::seq<int64_t>(ranks)))
      module->setAttr(module_attr::stageRanks,
                      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(timetable.rankOf.begin(), timetable.rankOf.end())));
    if (splitsBackward(timetable))
      module->setAttr(module_attr::splitsBackward, builder.getUnitAttr());
    else if (choices.overlapSteps)
      return module.emitError("overlap_steps: ")
             << timetableTitle(choices.timetable) << " computes backward passes whole, and its first rank ends a step "
             << "last, so that no rank could begin the next one earlier; take zb-h2 or zbv, or leave it out";
  } catch (const Error &error) {
    return module.emitError(error.what());
  }
  return setCrossing(module, choices);
}

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, const Choices &choices, Phase first, Phase last,
                        bool isForProgram, std::vector<BucketRule> *buckets) {
  auto run = [&](Phase phase, function_ref<void(OpPassManager &)> build) {
    return phase < first || phase > last ? success() : runPasses(module, options, build);
  };
  if (first <= Phase::How && last >= Phase::How && !requireTarget(module, options.target))
    return failure();
  KeepOptions keep;
  setOptions(keep, options, choices);
  WhenOptions when;
  setOptions(when, options, choices);
  auto buildKeep = isForProgram ? buildKeepPipeline : buildKeepPasses;
  auto buildHow = isForProgram ? buildHowPipeline : buildHowPasses;
  if (failed(run(Phase::What, [&](OpPassManager &manager) { buildWhatPipeline(manager, options.what); })) ||
      failed(run(Phase::Where, [&](OpPassManager &manager) { buildWherePipeline(manager, options.where); })) ||
      (first <= Phase::Keep && last >= Phase::Keep && failed(setStages(module, options, choices))) ||
      failed(run(Phase::Keep,
                 [&](OpPassManager &manager) { buildKeep(manager, keep, crossingCosts(module, options)); })) ||
      failed(run(Phase::How,
                 [&](OpPassManager &manager) {
                   setTarget(module, options.target);
                   buildHow(manager);
                 })) ||
      failed(run(Phase::When, [&](OpPassManager &manager) {
        buildWhenPasses(manager, when, bucketOptions(module, options, choices, buckets), choices.order);
      })))
    return failure();
  return success();
}

LogicalResult runBeforeRecompute(ModuleOp module, const CompileOptions &options, const Choices &choices) {
  KeepOptions keep;
  setOptions(keep, options, choices);
  return runPasses(module, options, [&](OpPassManager &manager) { buildBeforeRecompute(manager, keep); });
}

LogicalResult runLists(ModuleOp module, const CompileOptions &options, const Choices &choices,
                       std::vector<BucketRule> *buckets) {
  WhenOptions when;
  setOptions(when, options, choices);
  return runPasses(module, options, [&](OpPassManager &manager) {
    buildListsPipeline(manager, when, bucketOptions(module, options, choices, buckets));
  });
}

LogicalResult verifyWhen(ModuleOp module, const CompileOptions &options) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  WhenOptions when;
  setOptions(when, options, options.choices);
  buildWhenVerifier(manager, when);
  if (options.configure)
    options.configure(manager);
  return success(succeeded(manager.run(module)) && succeeded(verify(module)));
}

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase last) {
  if (failed(runPhases(module, options, options.choices, Phase::What, last, /*isForProgram=*/true)))
    return failure();
  if (succeeded(last == Phase::When ? verifyWhen(module, options) : verify(module)))
    return success();
  return markBroken(module);
}

FailureOr<double> flopsPerToken(ModuleOp module) {
  auto loss = module.lookupSymbol<func::FuncOp>(function::loss);
  if (!loss)
    return 0.0;
  FailureOr<double> flops = countModelFlops(loss);
  if (failed(flops))
    return failure();
  for (BlockArgument argument : loss.getArguments())
    if (PortAttr port = portOf(argument); port && port.getSource() && port.getSource().isOfSamples())
      return *flops / double(cast<RankedTensorType>(argument.getType()).getNumElements());
  return 0.0;
}

void addCode(TargetCode code, CompiledProgram &program) {
  for (abi::Kernel &kernel : *program.manifest.mutable_kernels())
    for (abi::KernelPass &pass : *kernel.mutable_passes())
      if (auto shared = code.sharedFunctions.find(pass.function()); shared != code.sharedFunctions.end())
        pass.set_function(shared->second);
  if (code.sections.size() == 1 && code.sections.front().name == "elf") {
    program.code = std::move(code.sections.front().bytes);
    return;
  }
  constexpr size_t alignment = 64;
  for (const CodeSection &section : code.sections) {
    program.code.resize(llvm::alignTo(program.code.size(), alignment));
    abi::CodePart &part = *program.manifest.add_code();
    part.set_name(section.name);
    part.set_offset(program.code.size());
    part.set_bytes(section.bytes.size());
    program.code += section.bytes;
  }
}

FailureOr<CompiledProgram> compile(ModuleOp module, const CompileOptions &options, bool generateCode,
                                   OwningOpRef<ModuleOp> *last) {
  if (!requireTarget(module, options.target)) // before the work
    return failure();
  std::unique_ptr<Planner> planner = Planner::create(module, options);
  if (!planner)
    return failure();
  std::optional<SearchedOrder> searched;
  bool isPredictable = options.layout && !overlapsSteps(options.choices.timetable) && !options.choices.overlapSteps;
  if (isPredictable && options.scheduleEffort > 1 && !options.what.generates) {
    FailureOr<SearchedOrder> found =
        searchOrder(*planner, options.choices, *options.layout, {options.scheduleEffort, options.memoryLimit});
    if (failed(found))
      return failure();
    searched = std::move(*found);
  }
  FailureOr<CompiledProgram> program =
      planner->compile(searched ? searched->choices : options.choices, generateCode, /*isLast=*/true);
  if (succeeded(program))
    program->searched = std::move(searched);
  if (last)
    *last = planner->takeLast();
  return program;
}

} // namespace dtc
