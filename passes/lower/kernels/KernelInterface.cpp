#include "passes/lower/kernels/KernelInterface.h"

#include "passes/lower/Targets.h"
#include "passes/lower/kernels/KernelPlan.h"

#include "dialect/IR/ElementTypes.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace dtc;

static bool readsWhole(Operation *user, Value input) {
  return llvm::is_contained(user->getOperands(), input) && !llvm::is_contained(domainOperands(user), input) &&
         isKernelOp(user);
}

/// Whether `output` may be written over `input`: only the same elements of the input are read, and none later.
static bool mayOverwrite(const KernelPlan &plan, unsigned output, unsigned input) {
  if (dt::shapeOf(plan.inputs[input]) != dt::shapeOf(plan.outputs[output]) ||
      dt::bytesOf(plan.inputs[input].getType()) != dt::bytesOf(plan.outputs[output].getType()) ||
      llvm::any_of(plan.inputs[input].getUsers(),
                   [&](Operation *user) { return readsWhole(user, plan.inputs[input]); }))
    return false;
  Span span = plan.outputSpans[output];
  for (auto [instance, sweep] : plan.lastLoad) {
    if (instance.first != plan.inputs[input])
      continue;
    if (instance.second != span || (plan.hasColumns(span) && sweep > plan.outputSweep[output]))
      return false;
  }
  return true;
}

FailureOr<KernelInterface> dtc::describe(dt::KernelOp kernel) {
  std::string why;
  FailureOr<KernelPlan> plan = planKernel(kernel, why);
  if (failed(plan))
    return kernel.emitOpError("cannot be compiled: ") << why;
  KernelInterface result;
  result.numInputs = plan->inputs.size();
  result.numOutputs = plan->outputs.size();
  LaunchShape shape = targetOf(kernel).getLaunchShape(*plan);
  result.grid = shape.grid;
  result.grain = shape.grain;
  result.passes = shape.passes;
  for (auto [number, pass] : llvm::enumerate(result.passes))
    pass.function = passFunction(kernel.getName(), number);
  result.scratchBytes = shape.scratchBytes;
  if (plan->kind == KernelKind::Flat)
    result.scalars.push_back(dt::LaunchScalar::of(plan->columns()));
  for (Operation *op : plan->ops)
    if (auto indexed = dyn_cast<dt::IndexedOpInterface>(op))
      llvm::append_range(result.scalars, indexed.getIndexScalars());
  for (unsigned output = 0; output < result.numOutputs; ++output) {
    auto &inputs = result.inPlace.emplace_back();
    if (shape.sharesRows && !plan->hasColumns(plan->outputSpans[output]))
      continue;
    for (unsigned input = 0; input < result.numInputs; ++input)
      if (mayOverwrite(*plan, output, input))
        inputs.push_back(input);
  }
  return result;
}
