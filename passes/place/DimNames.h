// Names of dimensions, for messages: those of parameters, inputs and tags, carried forward along factors.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/place/Iteration.h"

#include <unordered_map>
#include <unordered_set>

namespace dtc {

class DimNames {
public:
  /// Knows the names of the function's arguments.
  explicit DimNames(mlir::func::FuncOp function);

  /// Names the dimensions of an operation's results; all operations before it have been followed. The rule must outlive
  /// this object.
  void follow(mlir::Operation *op, const mlir::dt::FactorRule &rule);

  /// Name of a value's dimension, or null.
  mlir::StringAttr nameOf(mlir::Value value, int64_t dim) const;
  /// Name of an operation's factor: that of the first operand dimension it is the major part of, or null.
  mlir::StringAttr nameOf(mlir::Operation *op, const mlir::dt::FactorRule &rule, int factor) const;

private:
  using Names = llvm::SmallVector<mlir::StringAttr, 4>;
  struct Hash {
    template <typename Key> size_t operator()(const Key &key) const { return llvm::hash_combine_range(key); }
  };
  /// A rule, and the names of operands.
  using Known = llvm::SmallVector<const void *, 4>;

  const Names *keep(const Names &list) { return &*kept.insert(list).first; }
  llvm::SmallVector<const Names *, 1> namesOfResults(mlir::Operation *op, const mlir::dt::FactorRule &rule);

  llvm::DenseMap<mlir::Value, const Names *> names;
  std::unordered_set<Names, Hash> kept; ///< each once: thousands of values have a few different ones
  /// The names of results, null where they have none: equal layers have equal names.
  std::unordered_map<Known, llvm::SmallVector<const Names *, 1>, Hash> ofResults;
};

} // namespace dtc
