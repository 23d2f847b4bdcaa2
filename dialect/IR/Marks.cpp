// What an operation belongs to.
#include "dialect/IR/Marks.h"

#include "mlir/IR/OpDefinition.h"

using namespace mlir;
using namespace mlir::dt;

/// Scans the attributes only once: every pass asks this of every operation.
Marks dt::marksOf(Operation *op) {
  Marks marks;
  for (NamedAttribute each : op->getRawDictionaryAttrs())
    if (auto layer = dyn_cast<LayerAttr>(each.getValue()); layer && each.getName().getValue() == layerAttr)
      marks.layer = layer;
    else if (auto direction = dyn_cast<DirectionAttr>(each.getValue());
             direction && each.getName().getValue() == directionAttr)
      marks.direction = direction;
    else if (auto part = dyn_cast<IntegerAttr>(each.getValue()); part && each.getName().getValue() == partAttr)
      marks.part = part;
  return marks;
}

Marks dt::marksOf(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? marksOf(producer) : Marks();
}

Marks dt::joinMarks(ArrayRef<Operation *> ops) {
  Marks joined;
  for (auto [number, op] : llvm::enumerate(ops)) {
    Marks own = marksOf(op);
    joined.part = number == 0 || joined.part == own.part ? own.part : IntegerAttr();
    if (!joined.layer)
      joined.layer = own.layer;
    if (own.direction && (!joined.direction || own.direction.getValue() < joined.direction.getValue()))
      joined.direction = own.direction;
  }
  return joined;
}

/// Those of `marks` that an operation lacks.
static Marks missingOf(Operation *op, const Marks &marks) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return {};
  Marks own = marksOf(op);
  return {own.layer ? LayerAttr() : marks.layer, own.direction ? DirectionAttr() : marks.direction,
          own.part ? IntegerAttr() : marks.part};
}

static DictionaryAttr withMarks(DictionaryAttr attributes, const Marks &marks) {
  NamedAttrList list(attributes);
  if (marks.layer)
    list.set(layerAttr, marks.layer);
  if (marks.direction)
    list.set(directionAttr, marks.direction);
  if (marks.part)
    list.set(partAttr, marks.part);
  return list.getDictionary(attributes.getContext());
}

void dt::mark(Operation *op, const Marks &marks) {
  if (Marks missing = missingOf(op, marks); missing.layer || missing.direction || missing.part)
    op->setDiscardableAttrs(withMarks(op->getRawDictionaryAttrs(), missing));
}

void Marker::mark(Operation *op, const Marks &marks) {
  Marks missing = missingOf(op, marks);
  if (!missing.layer && !missing.direction && !missing.part)
    return;
  DictionaryAttr before = op->getRawDictionaryAttrs(),
                 &after = marked[{before, missing.layer, missing.direction, missing.part}];
  if (!after)
    after = withMarks(before, missing);
  op->setDiscardableAttrs(after);
}

void dt::completeMarks(Block &block) {
  SmallVector<Operation *> open; // few: passes mark most operations that they make
  for (Operation &op : block.without_terminator())
    if (!marksOf(&op).direction)
      open.push_back(&op);
  Marker marker;
  auto complete = [&](Operation *op, auto &&neighbours) {
    if (marksOf(op).direction)
      return;
    SmallVector<Operation *> marked;
    for (Operation *neighbour : neighbours)
      if (neighbour && marksOf(neighbour).direction)
        marked.push_back(neighbour);
    marker.mark(op, joinMarks(marked));
  };
  auto byReaders = [&] {
    for (Operation *op : llvm::reverse(open))
      complete(op, op->getUsers());
  };
  byReaders();
  for (Operation *op : open)
    complete(op, llvm::map_range(op->getOperands(), [](Value operand) { return operand.getDefiningOp(); }));
  byReaders(); // which now include those that got theirs from what they read
  llvm::erase_if(open, [](Operation *op) { return bool(marksOf(op).direction); });
  if (open.empty())
    return;
  // Operations that only pass a function's arguments on belong to the direction of all the others.
  std::optional<DirectionAttr> common;
  for (Operation &op : block.without_terminator())
    if (DirectionAttr own = marksOf(&op).direction)
      common = !common || *common == own ? own : DirectionAttr();
  for (Operation *op : open)
    if (common && *common)
      marker.mark(op, {{}, *common});
}
