// Kernels that are not part of the program's code: host functions that enqueue work on a stream, as NVIDIA's libraries
// do. The device looks them up by symbol and knows nothing else about them. The creator of a device passes in the
// object that has them (runtime/kernels/cuda/library.h).
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

/// What a function may use. Everything on the stream runs in the order of launches.
struct LibraryContext {
  StreamHandle stream = nullptr; ///< also a cudaStream_t
  DevicePointer workspace = 0;   ///< memory for one call, aligned to 256 bytes; not preserved between calls
  uint64_t workspaceBytes = 0;   ///< the kernel's share in the program's plan; for an attempt, all that exists
  const Driver *driver = nullptr;
  bool isCaptured = false;                ///< the launch becomes part of a CUDA graph: it must not wait for anything
  std::function<void()> finish = nullptr; ///< enqueues the program's own remaining work of the kernel, such as the
                                          ///< epilogue of a product that is already in the result; empty: there is none
};

/// Enqueues the work of one launch on the stream. Buffers are device addresses, inputs first. They are aligned to their
/// elements' size, and whole buffers to 256 bytes. Throws Error if the library refuses.
using LibraryFunction =
    std::function<void(LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars)>;

/// Likewise for a launch that the library may refuse. False: it has enqueued nothing, and the program's own code must
/// do the work.
using LibraryAttempt = std::function<bool(const LibraryContext &context, std::span<void *const> buffers,
                                          std::span<const int64_t> scalars)>;

/// The library's kernels for one device, whose context is current in every call except takeNotes.
class LibraryKernels {
public:
  /// After this, nothing may use the attempts, nor graphs with work that they enqueued. Functions may outlive it.
  virtual ~LibraryKernels() = default;

  /// Called once, before the others: may load a library for the program's kernels. Returns the minimum bytes of
  /// workspace that attempts need, whatever the program's plan says.
  virtual uint64_t start(const Gpu &gpu, const abi::Manifest &manifest) = 0;

  /// Called for each library kernel when a program starts: may load a library and throw Error saying what is missing.
  /// Empty if there is none of that name: the program's own code is the kernel.
  virtual LibraryFunction find(const Gpu &gpu, std::string_view symbol) = 0;

  /// Called like `find`, where `find` returns none: what each launch tries before the program's own code. Empty:
  /// nothing.
  virtual LibraryAttempt findAttempt(std::string_view symbol) = 0;

  /// Messages for people about decisions since the last call.
  virtual std::vector<std::string> takeNotes() = 0;
};

} // namespace dtc::cuda
