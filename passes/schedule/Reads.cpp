// When the values of a function are read and written.
#include "passes/schedule/Reads.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

Reads::Reads(func::FuncOp function, Layouts &layouts) {
  size_t size = function.front().getOperations().size();
  positions.reserve(size);
  last.reserve(size);
  for (auto [position, op] : llvm::enumerate(function.front())) {
    positions[&op] = position;
    for (Value operand : op.getOperands())
      last[layouts.rootOf(operand)] = position;
    if (!isa<ViewOpInterface>(op) && !op.hasTrait<Waits>())
      for (Value result : op.getResults())
        if (!layouts.ownsBuffer(result))
          parts.try_emplace(layouts.rootOf(result), position);
  }
}

int Reads::firstPart(Value root) const {
  auto it = parts.find(root);
  return it == parts.end() ? -1 : it->second;
}

int Reads::lastRead(Value root) const {
  auto it = last.find(root);
  return it == last.end() ? -1 : it->second;
}

bool readsOldContents(BlockArgument argument, OpResult result, const Reads &reads, Layouts &layouts, Kernels &kernels) {
  Operation *op = result.getOwner();
  int last = reads.lastRead(argument), position = reads.positionOf(op);
  if (int first = reads.firstPart(result); first >= 0)
    return last >= first;
  if (last != position)
    return last > position;
  SmallVector<unsigned> aligned = kernels.inPlaceOperands(op, result.getResultNumber());
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (layouts.rootOf(operand) == argument && !llvm::is_contained(aligned, index))
      return true;
  return false;
}

} // namespace dtc
