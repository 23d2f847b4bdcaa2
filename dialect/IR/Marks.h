// What an operation belongs to: a layer of the model (`dt.layer`, none outside the layers), a part of the training
// step (`dt.direction`, from differentiation on) and, where work is done in parts next to each other, one of these
// parts (`dt.part`, from dt-split-products on). Passes keep marks; operations that they make get the marks of what they
// are made for.
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
/// The marks of the operation that makes a value; none where it is an argument.
Marks marksOf(Value value);
/// Marks of work done together. Whoever waits for one piece of it waits for all, so the earliest direction counts. The
/// layer is that of the first operation that has one; the part is the one to which all belong, if there is one.
Marks joinMarks(llvm::ArrayRef<Operation *> ops);

/// Gives an operation the marks that it does not have. Constants get none: they may be shared.
void mark(Operation *op, const Marks &marks);

/// Marks many operations. They have few different sets of attributes, and the dictionary of each is made only once.
class Marker {
public:
  void mark(Operation *op, const Marks &marks);

private:
  /// By the attributes before and the marks that were added.
  DenseMap<std::tuple<Attribute, Attribute, Attribute, Attribute>, DictionaryAttr> marked;
};

/// Gives operations without a direction the marks of their readers, for which they were made. Where the readers have
/// none, they get the marks of what they read; where that has none either, the direction of all others, if these share
/// one.
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
