// What an operation belongs to.
#include "dialect/IR/Marks.h"

#include "mlir/IR/OpDefinition.h"

using namespace mlir;
using namespace mlir::dt;

Marks dt::marksOf(Operation *op) {
  return {op->getAttrOfType<LayerAttr>(layerAttr), op->getAttrOfType<DirectionAttr>(directionAttr)};
}

Marks dt::marksOf(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? marksOf(producer) : Marks();
}

Marks dt::joinMarks(ArrayRef<Operation *> ops) {
  Marks joined;
  for (Operation *op : ops) {
    Marks own = marksOf(op);
    if (!joined.layer)
      joined.layer = own.layer;
    if (own.direction && (!joined.direction || own.direction.getValue() < joined.direction.getValue()))
      joined.direction = own.direction;
  }
  return joined;
}

void dt::mark(Operation *op, const Marks &marks) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return;
  if (marks.layer && !op->hasAttr(layerAttr))
    op->setAttr(layerAttr, marks.layer);
  if (marks.direction && !op->hasAttr(directionAttr))
    op->setAttr(directionAttr, marks.direction);
}

void dt::completeMarks(Block &block) {
  auto complete = [](Operation &op, auto &&neighbours) {
    if (op.hasAttr(directionAttr))
      return;
    SmallVector<Operation *> marked;
    for (Operation *neighbour : neighbours)
      if (neighbour && neighbour->hasAttr(directionAttr))
        marked.push_back(neighbour);
    mark(&op, joinMarks(marked));
  };
  auto byReaders = [&] {
    for (Operation &op : llvm::reverse(block.without_terminator()))
      complete(op, op.getUsers());
  };
  byReaders();
  for (Operation &op : block.without_terminator())
    complete(op, llvm::map_range(op.getOperands(), [](Value operand) { return operand.getDefiningOp(); }));
  byReaders(); // of those that got theirs from what they read
  // What only hands on what the function takes belongs to what all else there is for.
  std::optional<DirectionAttr> common;
  for (Operation &op : block.without_terminator())
    if (DirectionAttr own = marksOf(&op).direction)
      common = !common || *common == own ? own : DirectionAttr();
  for (Operation &op : block.without_terminator())
    if (common && *common && !op.hasAttr(directionAttr))
      mark(&op, {{}, *common});
}
