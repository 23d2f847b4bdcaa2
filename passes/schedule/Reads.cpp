// When the values of a function are read.
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
  }
}

int Reads::lastRead(Value root) const {
  auto it = last.find(root);
  return it == last.end() ? -1 : it->second;
}

bool readsOldContents(BlockArgument argument, OpResult result, const Reads &reads, Layouts &layouts, Kernels &kernels) {
  Operation *op = result.getOwner();
  int last = reads.lastRead(argument), position = reads.positionOf(op);
  if (last != position)
    return last > position;
  SmallVector<unsigned> aligned = kernels.inPlaceOperands(op, result.getResultNumber());
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (layouts.rootOf(operand) == argument && !llvm::is_contained(aligned, index))
      return true;
  return false;
}

} // namespace dtc
