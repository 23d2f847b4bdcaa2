// Which groups of operations can share a kernel, and which kernel they are, worked out once for equal groups: equal
// layers have equal groups.
#pragma once

#include "dialect/IR/Ops.h"

#include <unordered_map>
#include <vector>

namespace dtc {

class ClusterMemo {
public:
  /// canShareKernel (passes/lower/kernels/KernelPlan.h), worked out only for a group that is unlike all earlier ones.
  bool canShareKernel(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs);

  /// The kernel of a group that computes `outputs` from `inputs`: that of an earlier equal group, or else what
  /// `outline` makes from this one.
  mlir::dt::KernelOp kernelOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> inputs,
                              llvm::ArrayRef<mlir::Value> outputs, llvm::function_ref<mlir::dt::KernelOp()> outline);

private:
  /// What the answers depend on: operations, attributes, types, and who reads whom. For the places that draws are keyed
  /// by, only whether they are equal counts, as in the kernel.
  using Key = std::vector<uint64_t>;
  static Key keyOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> inputs,
                   llvm::ArrayRef<mlir::Value> outputs);

  struct Hash {
    size_t operator()(const Key &key) const { return llvm::hash_combine_range(key); }
  };
  std::unordered_map<Key, bool, Hash> canShare;
  std::unordered_map<Key, mlir::dt::KernelOp, Hash> kernels;
};

} // namespace dtc
