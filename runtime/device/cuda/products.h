// Matrix products on GPUs: dtc_gemm of runtime/kernels/kernels.h by cuBLASLt.
#pragma once

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/library.h"

namespace dtc::cuda {

/// The function of "dtc_cuda_gemm", for the device whose context is current. Loads cuBLASLt; throws Error saying what
/// is missing. An algorithm is looked for at the first launch of each shape, and used for all that follow.
LibraryFunction makeProducts(std::span<const char *const> libraries = cublaslt::Library::Names);

} // namespace dtc::cuda
