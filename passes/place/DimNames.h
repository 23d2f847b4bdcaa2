// Names of dimensions, for messages: those of parameters, inputs and tags, carried forward along factors.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/place/Iteration.h"

namespace dtc {

class DimNames {
public:
  /// Knows the names of the function's arguments.
  explicit DimNames(mlir::func::FuncOp function);

  /// Names the dimensions of an operation's results; all before it have been followed.
  void follow(mlir::Operation *op, const mlir::dt::FactorRule &rule);

  /// Name of a value's dimension, or null.
  mlir::StringAttr nameOf(mlir::Value value, int64_t dim) const;
  /// Name of an operation's factor: that of the first operand dimension it is the major part of, or null.
  mlir::StringAttr nameOf(mlir::Operation *op, const mlir::dt::FactorRule &rule, int factor) const;

private:
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::StringAttr, 4>> names;
};

} // namespace dtc
