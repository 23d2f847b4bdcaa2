// The library's kernels on NVIDIA GPUs, for a device to look up (runtime/device/cuda/library_kernels.h): matrix
// products by cuBLASLt, and attention by cuDNN if it is installed. Their names, buffers and scalars are those of
// runtime/kernels/cpu/kernels.h, with dtc_cuda_ in front.
#pragma once

#include "runtime/device/cuda/library_kernels.h"

#include <memory>
#include <string>

namespace dtc::cuda {

/// What a user may choose about products.
struct ProductChoices {
  std::string tuned = {}; ///< the file of algorithms chosen by timing (ChoiceFile); empty: by heuristic
  bool tf32 = false;      ///< products of f32 round their factors to TF32, which has 10 bits of fraction
  std::string gpu;        ///< its model, which is part of the file's keys; set by LibraryKernels
};

/// The library kernels for one device; kernels from one library share its state.
std::unique_ptr<LibraryKernels> makeLibraryKernels(ProductChoices choices = {});

} // namespace dtc::cuda
