// Kernels of the library that are no code of the program: functions of the host that give work to a stream, as NVIDIA's
// libraries do. Their names, buffers and scalars are those of runtime/kernels/cpu/kernels.h, with dtc_cuda_ in front.
#pragma once

#include "runtime/device/cuda/gpu.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace dtc::cuda {

/// What a function may use. All that is given to the stream stands in the order of launches.
struct LibraryContext {
  StreamHandle stream = nullptr; ///< also a cudaStream_t
  DevicePointer workspace = 0;   ///< memory for one call, aligned to 256 bytes; holds nothing from call to call
  uint64_t workspaceBytes = 0;   ///< as the program's plan says of the kernel
  const Driver *driver = nullptr;
  bool isCaptured = false;                ///< the launch becomes part of a CUDA graph: nothing can be waited for
  std::function<void()> finish = nullptr; ///< gives the stream the epilogue of a product that lies in the result
                                          ///< already, as a kernel of the program; empty: it has none
};

/// Gives the work of one launch to the stream. Buffers are addresses of the device, inputs first; they lie at multiples
/// of their elements' size, and whole buffers at multiples of 256 bytes. Throws Error where the library refuses.
using LibraryFunction =
    std::function<void(LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars)>;

/// Called when a program starts, with the device's context current: may load a library and throw Error saying what is
/// missing. An empty function: there is none of that name.
using LibraryResolver = std::function<LibraryFunction(const Gpu &gpu, std::string_view symbol)>;

/// What a user may choose of products.
struct ProductChoices {
  std::string tuned = {}; ///< the file of algorithms that are chosen by time (ChoiceFile); empty: by heuristic
  bool tf32 = false;      ///< products of f32 round their factors to TF32, which has 10 bits of fraction
  std::string gpu;        ///< its model, which is part of what the file has; the resolver's
};

/// The functions that every program has, for one device: those of one library share what it knows.
LibraryResolver makeLibraryResolver(ProductChoices choices = {});

} // namespace dtc::cuda
