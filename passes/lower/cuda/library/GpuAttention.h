// Attention on GPUs: dtc_attention_forward and dtc_attention_backward of runtime/abi/library/attention.h, as functions
// of the program's code. What changes the code (GpuAttention) is part of the functions' names, all else is in the
// launch's scalars.
//
// A block computes 64 rows of a result and walks over tiles of 64 rows of the other side, as Dao et al. 2022
// ("FlashAttention") have it; scores are never stored. The forward function walks from 64 queries over the keys, with
// online softmax. The gradient takes three functions: rowsum(dO o) of all queries, into scratch; dQ, from 64 queries
// over the keys; dK and dV, from 64 keys over the queries of all heads that share them. Nothing is added up by two
// blocks: no atomic operations, and the same result each time.
//
// A key is visible to a query when its position is at most the query's limit (its own position where attention is
// causal, else any) and above its floor where there is a window. Missing keys of a last tile have the one position that
// no limit reaches.
#pragma once

#include "passes/lower/kernels/LaunchShape.h"

#include "dialect/IR/Library.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <optional>

namespace dtc {

/// What one of attention's library kernels is emitted for.
struct GpuAttention {
  static constexpr int64_t mostWidth = 256;

  bool isBackward = false;
  int64_t element = 0; ///< dtc_element
  int64_t width = 0;   ///< E
  bool causal = false, dropout = false, window = false, softcap = false, documents = false;

  /// Whether its products are those of 16-bit matrix units.
  bool usesMatrixUnits() const;

  /// Of a call of "attention_forward" or "attention_backward"; of another, nothing.
  static std::optional<GpuAttention> of(const mlir::dt::LibraryCall &call);

  /// "dtc_cuda_attention_forward$bf16_64_causal" and the like.
  std::string name(llvm::StringRef what) const;
  /// Of the kernel that a call launches: the first function's name, and what else its launches depend on.
  std::string symbolOf(const mlir::dt::LibraryCall &call) const;
  /// Its functions, one after the other, for a launch of the sizes that the call states; and the bytes of scratch.
  llvm::SmallVector<LaunchPass, 2> passesOf(const mlir::dt::LibraryCall &call) const;
  int64_t scratchBytesOf(const mlir::dt::LibraryCall &call) const;

  /// What cuDNN's gradient may need instead (runtime/kernels/cuda/attention.h); 0 where it takes none of it. That stores
  /// the gradients of scores: of as many heads at a time as need no more than `mostLibraryScratch`.
  int64_t libraryScratchBytesOf(const mlir::dt::LibraryCall &call) const;
  static constexpr int64_t mostLibraryScratch = int64_t(1) << 30;
};

/// Appends its functions to `module`.
void addGpuAttention(const GpuAttention &kind, mlir::gpu::GPUModuleOp module);

} // namespace dtc
