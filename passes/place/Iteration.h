// How an operation's loop dimensions are split, and what this requires of its operands and means for its results.
#pragma once

#include "dialect/IR/Ops.h"
#include "passes/place/Axes.h"

#include <memory>
#include <unordered_map>

namespace dtc {

/// An operation's factors, and which of them may be split.
struct Loops {
  mlir::dt::FactorRule rule;
  llvm::SmallVector<bool> canSplit;   ///< not NeedsReplication, and major in every dimension it is part of
  llvm::SmallVector<bool> mustDivide; ///< part of a fused dimension, where padding would fall inside

  explicit Loops(mlir::dt::FactorOpInterface op);
};

/// The loops of operations, worked out once for equal operations: equal layers have equal loops.
class LoopTable {
public:
  const Loops &of(mlir::dt::FactorOpInterface op);

private:
  /// The operation's name, the hash (of 64 bits) of its attributes, and the types of its operands and results.
  using Key = llvm::SmallVector<uint64_t, 8>;
  struct Hash {
    size_t operator()(const Key &key) const { return llvm::hash_combine_range(key); }
  };
  std::unordered_map<Key, std::unique_ptr<const Loops>, Hash> known;
};

/// An operation's loops with the atoms that split each of them.
struct Iteration {
  const mlir::dt::FactorRule &rule;
  const llvm::SmallVector<bool> &canSplit, &mustDivide;
  llvm::SmallVector<AtomList> atoms; ///< for each factor

  explicit Iteration(const Loops &loops);

  /// Splits the factors as the dimensions of `placement` are.
  void splitAs(const Placement &placement) { atoms.assign(placement.dims.begin(), placement.dims.end()); }
  AtomMask usedMask() const;
  /// Placement of a tensor with these dimensions. Nothing is partial.
  Placement placementOf(const mlir::dt::DimFactors &dims) const;
  /// The atoms over which result `result` is partial because factors it lacks are split.
  Partials partialOf(unsigned result) const;
  /// Whether `dims` has the factor.
  static bool contains(const mlir::dt::DimFactors &dims, int factor);
  /// Removes the atoms from all factors.
  void drop(AtomMask mask);
};

} // namespace dtc
