// Kernels that are no code of the program: functions of the host that give work to a stream, as NVIDIA's libraries do.
// The device asks for them by symbol and knows nothing else of them. Whoever makes a device gives it the object that
// has them (runtime/kernels/cuda/library.h).
#pragma once

#include "runtime/device/cuda/gpu.h"

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::cuda {

/// What a function may use. All that is given to the stream stands in the order of launches.
struct LibraryContext {
  StreamHandle stream = nullptr; ///< also a cudaStream_t
  DevicePointer workspace = 0;   ///< memory for one call, aligned to 256 bytes; holds nothing from call to call
  uint64_t workspaceBytes = 0;   ///< as the program's plan says of the kernel; for an attempt, all that there is
  const Driver *driver = nullptr;
  bool isCaptured = false;                ///< the launch becomes part of a CUDA graph: nothing can be waited for
  std::function<void()> finish = nullptr; ///< gives the stream what the program has of the kernel besides, such as the
                                          ///< epilogue of a product that is in the result already; empty: it has none
};

/// Gives the work of one launch to the stream. Buffers are addresses of the device, inputs first; they lie at multiples
/// of their elements' size, and whole buffers at multiples of 256 bytes. Throws Error where the library refuses.
using LibraryFunction =
    std::function<void(LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars)>;

/// The same for a launch that the library may refuse. False: it has given nothing to the stream, and the program's own
/// code must do the work.
using LibraryAttempt = std::function<bool(const LibraryContext &context, std::span<void *const> buffers,
                                          std::span<const int64_t> scalars)>;

/// The library's kernels for one device, whose context is current whenever a function is called but takeNotes.
class LibraryKernels {
public:
  /// Nothing may use the attempts after it, nor a graph what they gave to the stream. Functions may outlive it.
  virtual ~LibraryKernels() = default;

  /// Called once, before the others: may load a library for the program's kernels. Returns the bytes of workspace that
  /// attempts need at least, whatever the program's plan says.
  virtual uint64_t start(const Gpu &gpu, const abi::Manifest &manifest) = 0;

  /// Called for each library kernel when a program starts: may load a library and throw Error saying what is missing.
  /// Empty: there is none of that name, and the program's own code is the kernel.
  virtual LibraryFunction find(const Gpu &gpu, std::string_view symbol) = 0;

  /// Called as `find` is: what is tried at each launch before the program's own code, where `find` gives none. Empty:
  /// nothing is.
  virtual LibraryAttempt findAttempt(std::string_view symbol) = 0;

  /// What was decided since it was last asked, for people to read.
  virtual std::vector<std::string> takeNotes() = 0;
};

} // namespace dtc::cuda
