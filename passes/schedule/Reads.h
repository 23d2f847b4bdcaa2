// When the values of a function are read and written.
#pragma once

#include "passes/lower/kernels/Kernels.h"
#include "passes/lower/kernels/Layouts.h"

namespace dtc {

/// By position of the reading operation. Only values with buffers of their own ("roots") count; a view's reads are its
/// root's.
class Reads {
public:
  Reads(mlir::func::FuncOp function, Layouts &layouts);
  int positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// Position of the last read, or -1.
  int lastRead(mlir::Value root) const;
  /// Position of what first writes a part of a value that is assembled; -1 where one operation makes all of it.
  int firstPart(mlir::Value root) const;

private:
  llvm::DenseMap<mlir::Operation *, int> positions;
  llvm::DenseMap<mlir::Value, int> last, parts;
};

/// Whether the argument's contents are still needed when, or after, `result` is written over them.
bool readsOldContents(mlir::BlockArgument argument, mlir::OpResult result, const Reads &reads, Layouts &layouts,
                      Kernels &kernels);

} // namespace dtc
