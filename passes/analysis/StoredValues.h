// What will be stored. An operation of a kernel (isKernelOp) is heavy if its result gets a tensor of its own, and light
// if it is computed in each kernel that reads it. *Keep* asks from which tensors a value could be recomputed, and
// fusion builds its kernels from heavy operations: both must mean the same.
//
// Heavy operations are those whose result is read outside kernels, or as a whole whatever the index; those that sum up
// more elements than they make; and those whose result several operations read and which takes more than one large
// tensor to make. What operations outside kernels make is stored anyway.
#pragma once

#include "passes/analysis/KernelOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

#include <limits>

namespace dtc {

/// Whether reading a tensor of this many elements costs about as much as writing one of `size`.
inline bool isLarge(int64_t elements, int64_t size) { return 2 * elements > size; }

/// Answers are kept, and stay what they were when first asked for.
class StoredValues {
public:
  /// `mostInputs`: an operation that reads more stored values than that is heavy, too. Targets have such a limit.
  explicit StoredValues(size_t mostInputs = std::numeric_limits<size_t>::max()) : mostInputs(mostInputs) {}

  /// Makes room for questions about this many operations.
  void reserve(size_t operations) {
    kernels.reserve(operations);
    light.reserve(operations);
    inputs.reserve(operations);
  }

  /// isKernelOp, computed once.
  bool isKernel(mlir::Operation *op);
  /// Whether the operation belongs to a kernel and its result is computed where it is read.
  bool isLight(mlir::Operation *op);
  /// Whether it belongs to a kernel and its result is stored.
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
