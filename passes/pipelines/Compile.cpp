// From a model's module to a program.
#include "passes/pipelines/Compile.h"
#include "passes/lower/Targets.h"
#include "passes/pipelines/How.h"
#include "passes/pipelines/Keep.h"
#include "passes/pipelines/When.h"
#include "passes/schedule/EmitManifest.h"

#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/abi/manifest_version.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// The target that was asked for, or null after an error.
static const Target *requireTarget(ModuleOp module, const std::string &name) {
  std::string why;
  const Target *target = findTarget(name, why);
  if (!target)
    module.emitError("target '") << name << "': " << why;
  return target;
}

/// Of an unknown target: no. It is reported where the phase "how" needs it.
static bool keepsCopies(const std::string &target) {
  std::string why;
  const Target *found = findTarget(target, why);
  return found && found->keepsCopies();
}

static LogicalResult markBroken(ModuleOp module) {
  module->setAttr(module_attr::broken, UnitAttr::get(module.getContext()));
  return failure();
}

namespace {
/// Notices that the contract which closes a phase does not hold. That of "what" does not count: it judges models too.
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

/// Whether operations keep their own rules; they did when the model was loaded.
static LogicalResult verifyOperations(ModuleOp module) {
  return succeeded(verify(module)) ? success() : markBroken(module);
}

/// Runs the phases from `first` to `last`. Each ends in a verifier of its own contract. Operations are verified one by
/// one by the callers, at the end; after each pass dtc-opt does it, which takes a quarter of a compilation.
static LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase first, Phase last) {
  auto run = [&](Phase phase, function_ref<void(OpPassManager &)> build) {
    if (phase < first || phase > last)
      return success();
    PassManager manager(module.getContext());
    manager.enableVerifier(false);
    manager.addInstrumentation(std::make_unique<ContractWatch>(module));
    build(manager);
    if (options.configure)
      options.configure(manager);
    return manager.run(module);
  };
  if (first <= Phase::How && last >= Phase::How && !requireTarget(module, options.target))
    return failure();
  KeepOptions keep;
  keep.accumulation = options.what.accumulation;
  keep.copies = options.copies.value_or(keepsCopies(options.target));
  keep.gatherAhead = options.gatherAhead;
  WhenOptions when;
  when.memoryLimit = options.memoryLimit;
  when.accumulation = options.what.accumulation;
  when.timetable = options.timetable;
  when.gatherAhead = options.gatherAhead;
  if (failed(run(Phase::What, [&](OpPassManager &manager) { buildWhatPipeline(manager, options.what); })) ||
      failed(run(Phase::Where, [&](OpPassManager &manager) { buildWherePipeline(manager, options.where); })) ||
      failed(run(Phase::Keep, [&](OpPassManager &manager) { buildKeepPipeline(manager, keep); })) ||
      failed(run(Phase::How,
                 [&](OpPassManager &manager) {
                   setTarget(module, options.target);
                   buildHowPipeline(manager);
                 })) ||
      failed(run(Phase::When, [&](OpPassManager &manager) { buildWhenPipeline(manager, when); })))
    return failure();
  return success();
}

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase last) {
  return success(succeeded(runPhases(module, options, Phase::What, last)) && succeeded(verifyOperations(module)));
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

/// One shared object is the whole code; of several sections the manifest says where each lies.
static void addCode(TargetCode code, CompiledProgram &program) {
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

FailureOr<CompiledProgram> compile(ModuleOp module, const CompileOptions &options, bool generateCode) {
  CompiledProgram program;
  const Target *target = requireTarget(module, options.target);
  if (!target)
    return failure();
  FailureOr<double> flops = flopsPerToken(module);
  if (failed(flops))
    return failure();
  if (failed(runPhases(module, options, Phase::What, Phase::How)))
    return failure();
  // Kernels are final here: their code is generated while the rest is compiled.
  FailureOr<std::future<TargetCode>> code =
      target->startCompiling(generateCode ? llvm::to_vector(module.getOps<KernelOp>()) : SmallVector<KernelOp>());
  if (failed(code) || failed(runPhases(module, options, Phase::When, Phase::When)) || failed(verifyOperations(module)))
    return failure();
  if (failed(emitManifest(module, program.manifest)))
    return failure();
  program.manifest.set_version(ManifestVersion);
  program.manifest.set_target(target->getName().str());
  for (const std::string &feature : target->getFeatures())
    program.manifest.add_target_features(feature);
  program.manifest.set_timetable(options.timetable);
  program.manifest.set_strategy(options.where.strategy);
  program.manifest.set_strategy_text(options.where.strategyText);
  program.manifest.set_flops_per_token(*flops);
  TargetCode generated = code->get();
  if (!generated.error.empty()) {
    module.emitError("generated kernels cannot be compiled: ") << generated.error;
    return markBroken(module);
  }
  addCode(std::move(generated), program);
  return program;
}

} // namespace dtc
