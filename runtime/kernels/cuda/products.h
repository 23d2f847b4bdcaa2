// Matrix products on GPUs by cuBLASLt.
//
// "dtc_cuda_gemm" is dtc_gemm of runtime/abi/library/gemm.h. "dtc_cuda_product$..." is a product with an epilogue
// (runtime/abi/epilogue.h): its scalars are those of dtc_gemm, of which `accumulate` is 0 and the batch 1, and the
// epilogue's number; its buffers are A, B, then what the epilogue reads, the result, and the second result. The
// accumulator (which may be the result), x and the second result have the layout and type of the result; the bias has
// its type.
#pragma once

#include "runtime/kernels/cuda/cublaslt.h"
#include "runtime/kernels/cuda/library.h"

namespace dtc::cuda {

/// The function of "dtc_cuda_gemm" and of each "dtc_cuda_product$...", for the device whose context is current. Loads
/// cuBLASLt; throws Error saying what is missing. The first launch of each shape chooses an algorithm, which all later
/// launches use: the first of cuBLASLt's heuristic, or the fastest of its first few, which ChoiceFile stores.
LibraryFunction makeProducts(const ProductChoices &choices, std::span<const char *const> libraries);

} // namespace dtc::cuda
