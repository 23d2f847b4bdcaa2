// Where each value of a function is in memory: in a buffer of its own, or as a view of another value's.
#pragma once

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace dtc {

/// A part of the buffer of `root`, a value with a dense buffer of its own.
struct Place {
  mlir::Value root;
  mlir::dt::StridedView view;

  bool isWhole() const;
};

/// The places of a function's values. Views of operands (slices, reshapes) share the operand's buffer; operands of a
/// concatenation are written into the result's, when their producer can write strided memory.
class Layouts {
public:
  explicit Layouts(mlir::func::FuncOp function);

  const Place &placeOf(mlir::Value value);
  /// placeOf(value).view.layout.
  const mlir::dt::StridedLayout &layoutOf(mlir::Value value);
  /// Whether placeOf(value).root is the value itself.
  bool ownsBuffer(mlir::Value value) const { return !elsewhere.contains(value); }
  /// placeOf(value).root, without working out the layout of a value that has its own buffer, as most do.
  mlir::Value rootOf(mlir::Value value) { return ownsBuffer(value) ? value : placeOf(value).root; }
  /// The layouts of an operation's operands, then of its results.
  llvm::SmallVector<mlir::dt::StridedLayout> layoutsOf(mlir::Operation *op);

private:
  /// The place of an operand that is written into the result's buffer.
  struct Destination {
    mlir::Value result;
    mlir::dt::StridedView view;
  };
  void forward(mlir::dt::ViewOpInterface op);
  Place findPlace(mlir::Value value);

  llvm::DenseMap<mlir::Value, Destination> destinations;
  llvm::DenseSet<mlir::Value> elsewhere; ///< values in another value's buffer: few, and looked up often
  std::deque<Place> found;               ///< whose addresses stay the same as it grows
  llvm::DenseMap<mlir::Value, const Place *> places;
  /// Layouts of values with buffers of their own, by type.
  llvm::DenseMap<mlir::Type, std::unique_ptr<const mlir::dt::StridedLayout>> dense;
};

/// Whether the target's kernels need operand `index` of `op` at a multiple of the target's alignment.
bool mustBeAligned(mlir::Operation *op, unsigned index);

/// Whether `value` can be written straight into a part of the buffer of what it is put together in: the operation that
/// makes it can do so, it is put together only once, and all others only read it.
bool canWriteInto(mlir::Value value, const mlir::dt::StridedView &part);

} // namespace dtc
