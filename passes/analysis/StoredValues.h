// What will be stored. An operation of a kernel (isKernelOp) is heavy where its result gets a tensor of its own, and
// light where it is computed in each kernel that reads it. *Keep* asks from which tensors a value could be made again,
// fusion builds its kernels of heavy operations: both must mean the same.
//
// Heavy is what is read outside kernels or whole whatever the index, what sums up more elements than it makes, and what
// more than one operation reads and takes more than one large tensor to make. What other operations make is stored
// anyway.
#pragma once

#include "passes/analysis/KernelOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

#include <limits>

namespace dtc {

/// Whether reading a tensor of so many elements weighs about as much as writing one of `size`.
inline bool isLarge(int64_t elements, int64_t size) { return 2 * elements > size; }

/// Answers are kept: they are those of the time when they were first asked for.
class StoredValues {
public:
  /// `mostInputs`: an operation that reads more stored values than that is heavy, too. Targets have such a limit.
  explicit StoredValues(size_t mostInputs = std::numeric_limits<size_t>::max()) : mostInputs(mostInputs) {}

  /// For questions about so many operations.
  void reserve(size_t operations) {
    kernels.reserve(operations);
    light.reserve(operations);
    inputs.reserve(operations);
  }

  /// isKernelOp, asked once.
  bool isKernel(mlir::Operation *op);
  /// Whether the operation is one of a kernel and its result is computed where it is read.
  bool isLight(mlir::Operation *op);
  /// Whether it is one of a kernel and its result is stored.
  bool isHeavy(mlir::Operation *op) { return isKernel(op) && !isLight(op); }

  /// The stored values that computing the result of a kernel's operation reads.
  llvm::ArrayRef<mlir::Value> inputsOf(mlir::Operation *op);
  /// Those that are about as large as the result.
  llvm::SmallVector<mlir::Value> largeInputsOf(mlir::Operation *op);
  /// The stored values that computing `value` reads: itself, if it is stored.
  void forEachInput(mlir::Value value, llvm::function_ref<void(mlir::Value)> visit);

private:
  bool computeIsLight(mlir::Operation *op);

  size_t mostInputs;
  llvm::DenseMap<mlir::Operation *, bool> kernels, light;
  llvm::DenseMap<mlir::Operation *, llvm::ArrayRef<mlir::Value>> inputs;
  llvm::BumpPtrAllocator storage; ///< of the inputs
};

} // namespace dtc
