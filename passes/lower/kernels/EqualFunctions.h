// Kernels with equal code share one function.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace dtc {

class EqualFunctions {
public:
  /// An earlier function that differs from this one at most in name and locations. If there is none, remembers this one
  /// and returns null.
  mlir::Operation *findOrAdd(mlir::Operation *function);

private:
  llvm::DenseMap<int64_t, llvm::SmallVector<mlir::Operation *>> bySize; ///< only functions of equal size are compared
};

} // namespace dtc
