// Strided copies on GPUs: dtc_copy of runtime/abi/library/copy.h, as a function of the program's code for each shape.
//
// Sizes and strides are constants of the code, so that no thread divides by a number that it does not know, and
// dimensions that follow each other on both sides are one. Threads move up to 16 bytes at a time where the shape allows
// it and, as a launch finds, the places too.
#pragma once

#include "passes/lower/kernels/LaunchShape.h"

#include "dialect/IR/Library.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <optional>

namespace dtc {

struct GpuCopy {
  /// A dimension of both sides; strides in elements.
  struct Dim {
    int64_t size, read, written;
  };

  llvm::SmallVector<Dim, 6> dims; ///< the innermost last; one at least
  int limited = -1;               ///< the dimension along which the source may end early; -1: none
  int64_t bytes;                  ///< of an element

  /// Of a call of "copy"; of another, nothing.
  static std::optional<GpuCopy> of(const mlir::dt::LibraryCall &call);
  /// From scalars of dtc_copy: the sizes, strides to read and strides to write of its six dimensions.
  GpuCopy(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> reads, llvm::ArrayRef<int64_t> writes, int limited,
          int64_t bytes);

  /// How many elements are moved at a time at places that are multiples of their bytes.
  int64_t elementsAtOnce() const;
  /// "dtc_cuda_copy$..." with all that the code depends on: of the function, and of the kernel.
  std::string name() const;
  LibraryKernel kernel() const;
};

/// Appends its function to `module`.
void addGpuCopy(const GpuCopy &copy, mlir::gpu::GPUModuleOp module);

} // namespace dtc
