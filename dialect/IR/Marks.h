// What an operation belongs to: a layer of the model (`dt.layer`, none outside the layers), a part of the training
// step (`dt.direction`, from differentiation on) and, where it is done in parts beside each other, one of these
// (`dt.part`, from dt-split-products on). Passes keep marks; what they make bears those of what it is made for.
#pragma once

#include "dialect/IR/Attributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::dt {

inline constexpr llvm::StringLiteral layerAttr = "dt.layer", directionAttr = "dt.direction", partAttr = "dt.part";

struct Marks {
  LayerAttr layer;         ///< null outside the layers
  DirectionAttr direction; ///< null before differentiation
  IntegerAttr part = {};   ///< a number from 0 on; null where all is done at once
};

Marks marksOf(Operation *op);
/// Those of the operation that makes a value; none where it is an argument.
Marks marksOf(Value value);
/// Of work done together: whoever waits for a part waits for all, so the earliest direction counts; the layer of the
/// first that has one; the part that all are of.
Marks joinMarks(llvm::ArrayRef<Operation *> ops);

/// Gives an operation the marks that it does not have. Constants get none: they may be shared.
void mark(Operation *op, const Marks &marks);

/// Marks many operations. Few of them differ in their attributes, and each dictionary of these is made once.
class Marker {
public:
  void mark(Operation *op, const Marks &marks);

private:
  /// By what there was and what was added.
  DenseMap<std::tuple<Attribute, Attribute, Attribute, Attribute>, DictionaryAttr> marked;
};

/// Gives operations without a direction the marks of what reads them, which they were made for; where that has none, of
/// what they read; and where that has none, the direction of all others, if they have one.
void completeMarks(Block &block);

/// Marks every operation that is built while it listens.
class MarkListener : public OpBuilder::Listener {
public:
  MarkListener() = default;
  explicit MarkListener(const Marks &marks) : marks(marks) {}

  void setMarks(const Marks &newMarks) { marks = newMarks; }
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { marker.mark(op, marks); }

private:
  Marks marks;
  Marker marker;
};

} // namespace mlir::dt
