#include "passes/schedule/launches/JoinedLaunches.h"

#include "dialect/IR/ElementwiseKernel.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

unsigned Formulas::numberOf(LaunchOp launch) {
  auto [known, isNew] = ofKernel.try_emplace(launch.getKernelAttr());
  if (!isNew)
    return known->second;
  if (KernelOp kernel = kernels.kernelOf(launch); isElementwise(kernel))
    known->second = numbers.try_emplace(formulaOf(kernel), numbers.size() + 1).first->second;
  return known->second;
}

JoinedLaunches::JoinedLaunches(func::FuncOp function, ArenaLayout &arena, Formulas &formulas)
    : function(function), arena(arena) {
  SmallVector<LaunchOp> launches;
  for (Operation &op : function.front()) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      launches.push_back(launch);
    } else if (!isa<ViewOpInterface>(op)) {
      join(launches, formulas); // other operations may touch anything, or should begin as soon as they can
      launches.clear();
    }
  }
}

void JoinedLaunches::join(ArrayRef<LaunchOp> launches, Formulas &formulas) {
  LaunchRun run;
  for (LaunchOp launch : launches)
    run.formulas.push_back(formulas.numberOf(launch));
  run.buffersOf = [&](size_t number) { return buffersOf(launches[number]); };
  for (const std::vector<int> &group : joinLaunches(run))
    for (int number : group)
      groups[launches[group.front()]].push_back(launches[number]);
}

ArrayRef<LaunchOp> JoinedLaunches::at(LaunchOp launch) const {
  auto found = groups.find(launch);
  return found == groups.end() ? ArrayRef<LaunchOp>() : ArrayRef<LaunchOp>(found->second);
}

std::vector<LaunchBuffer> JoinedLaunches::buffersOf(LaunchOp launch) const {
  std::vector<LaunchBuffer> buffers;
  auto add = [&](Value value, bool isWritten) {
    LaunchBuffer &buffer = buffers.emplace_back();
    buffer.begin = arena.addressOf(function, value);
    buffer.end = buffer.begin + bytesOf(value.getType());
    buffer.value = reinterpret_cast<uintptr_t>(value.getAsOpaquePointer());
    buffer.isScalar = cast<RankedTensorType>(value.getType()).getRank() == 0;
    buffer.isDense = arena.layoutsOf(function).layoutOf(value).isDense();
    buffer.isWritten = isWritten;
  };
  for (Value operand : launch.getOperands())
    add(operand, false);
  for (Value result : launch.getResults())
    add(result, true);
  return buffers;
}

} // namespace dtc
