// Kernels of equal code share one function.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace dtc {

class EqualFunctions {
public:
  /// An earlier function that differs from this one in name and locations at most; null, and remembers it, where there
  /// is none.
  mlir::Operation *findOrAdd(mlir::Operation *function);

private:
  llvm::DenseMap<int64_t, llvm::SmallVector<mlir::Operation *>> bySize; ///< those of one size are compared
};

} // namespace dtc
