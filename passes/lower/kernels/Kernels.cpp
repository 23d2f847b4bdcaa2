// The kernels of a module and their interfaces.
#include "passes/lower/kernels/Kernels.h"

#include "dialect/cost/Cost.h"

using namespace mlir;
using namespace mlir::dt;

LogicalResult dtc::Kernels::describeAll() {
  for (auto kernel : cast<ModuleOp>(symbols.getOp()).getOps<KernelOp>()) {
    FailureOr<KernelInterface> described = describe(kernel);
    if (failed(described))
      return failure();
    interfaces[kernel] = *described;
  }
  return success();
}

const dtc::KernelInterface &dtc::Kernels::interfaceOf(LaunchOp launch) {
  KernelOp kernel = kernelOf(launch);
  auto [it, isNew] = interfaces.try_emplace(kernel);
  if (isNew)
    if (FailureOr<KernelInterface> described = describe(kernel); succeeded(described))
      it->second = *described;
  return it->second;
}

FailureOr<Work> dtc::Kernels::workOf(LaunchOp launch) {
  KernelOp kernel = kernelOf(launch);
  if (auto known = works.find(kernel); known != works.end())
    return known->second;
  FailureOr<Work> work = dt::workOf(kernel);
  if (succeeded(work))
    works[kernel] = *work;
  return work;
}

SmallVector<unsigned> dtc::Kernels::inPlaceOperands(Operation *op, unsigned result) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return interfaceOf(launch).inPlace[result];
  if (auto library = dyn_cast<LibraryOpInterface>(op)) {
    int operand = library.getInPlaceOperand(result);
    return operand < 0 ? SmallVector<unsigned>() : SmallVector<unsigned>{static_cast<unsigned>(operand)};
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op); collective && collective.canBeInPlace())
    return {0};
  return {};
}
