// From a model's module to a program.
#include "passes/pipelines/Compile.h"
#include "passes/lower/EmitManifest.h"
#include "passes/lower/NativeCode.h"
#include "passes/pipelines/How.h"
#include "passes/pipelines/When.h"

#include "dialect/IR/Roles.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase last) {
  PassManager manager(module.getContext());
  manager.enableVerifier(true);
  buildWhatPipeline(manager, options.what);
  if (last >= Phase::Where)
    buildWherePipeline(manager, options.where);
  if (last >= Phase::When)
    buildWhenPipeline(manager);
  if (last >= Phase::How)
    buildHowPipeline(manager);
  if (options.configure)
    options.configure(manager);
  return manager.run(module);
}

/// Forward and backward flops of the contractions and attentions for one token. The gradient functions repeat none of
/// the forward's work but attention's, so the model's flops are three times the forward's.
static double flopsPerToken(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>(function::loss);
  if (!forward)
    return 0;
  double flops = 0, tokens = 1;
  forward.walk([&](Operation *op) {
    if (isa<LibraryOpInterface>(op))
      if (auto cost = dyn_cast<CostOpInterface>(op))
        flops += cost.getFlops();
  });
  for (BlockArgument argument : forward.getArguments())
    if (auto name = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr); name && name == "tokens")
      tokens = cast<RankedTensorType>(argument.getType()).getNumElements();
  return 3 * flops / tokens;
}

FailureOr<CompiledProgram> compile(ModuleOp module, const CompileOptions &options, bool generateCode) {
  CompiledProgram program;
  std::string why;
  FailureOr<CodeTarget> target = resolveTarget(options.target, why);
  if (failed(target))
    return module.emitError("target '") << options.target << "': " << why;
  double flops = flopsPerToken(module);
  if (failed(runPhases(module, options, Phase::How)))
    return failure();
  FailureOr<MemoryPlan> plan = MemoryPlan::compute(module, options.memoryLimit);
  if (failed(plan) || failed(emitManifest(module, *plan, options.what.accumulation, program.manifest)))
    return failure();
  program.manifest.set_version(1);
  program.manifest.set_target(target->cpu);
  for (const std::string &feature : target->features)
    program.manifest.add_target_features(feature);
  program.manifest.set_strategy(options.where.strategy);
  program.manifest.set_flops_per_token(flops);
  if (generateCode) {
    FailureOr<std::string> code = compileKernels(llvm::to_vector(module.getOps<KernelOp>()), *target);
    if (failed(code))
      return failure();
    program.sharedObject = std::move(*code);
  }
  return program;
}

} // namespace dtc
