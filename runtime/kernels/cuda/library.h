// The library's kernels on NVIDIA's GPUs, as a device asks for them (runtime/device/cuda/library_kernels.h): matrix
// products by cuBLASLt, and attention by cuDNN where there is one. Their names, buffers and scalars are those of
// runtime/kernels/cpu/kernels.h, with dtc_cuda_ in front.
#pragma once

#include "runtime/device/cuda/library_kernels.h"

#include <memory>
#include <string>

namespace dtc::cuda {

/// What a user may choose of products.
struct ProductChoices {
  std::string tuned = {}; ///< the file of algorithms that are chosen by time (ChoiceFile); empty: by heuristic
  bool tf32 = false;      ///< products of f32 round their factors to TF32, which has 10 bits of fraction
  std::string gpu;        ///< its model, which is part of what the file has; set by LibraryKernels
};

/// The kernels that every program has, for one device: those of one library share what it knows.
std::unique_ptr<LibraryKernels> makeLibraryKernels(ProductChoices choices = {});

} // namespace dtc::cuda
