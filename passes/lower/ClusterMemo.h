// Which groups of operations can share a kernel, asked once for equal groups: layers are equal, and so are their
// groups.
#pragma once

#include "dialect/IR/Ops.h"

#include <unordered_map>
#include <vector>

namespace dtc {

class ClusterMemo {
public:
  /// canShareKernel (passes/lower/KernelDomain.h), worked out anew only for a group that is like no earlier one.
  bool canShareKernel(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs);

private:
  /// What the answer depends on: operations, attributes, types, and who reads whom. The places that draws are keyed by
  /// count only as equal or not, as in the kernel.
  using Key = std::vector<uint64_t>;
  static Key keyOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> outputs);

  struct Hash {
    size_t operator()(const Key &key) const { return llvm::hash_combine_range(key); }
  };
  std::unordered_map<Key, bool, Hash> known;
};

} // namespace dtc
