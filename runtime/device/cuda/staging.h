// Host memory that a GPU accesses directly, in buffers that are used in turn.
#pragma once

#include "runtime/device/cuda/gpu.h"
#include "runtime/support/not_copied.h"

#include <mutex>
#include <span>
#include <vector>

namespace dtc::cuda {

/// Copies of any size in the order of a stream. Several threads may copy at once.
class Staging : NotCopied {
public:
  Staging(const Gpu &gpu, StreamHandle stream);
  ~Staging();

  /// `host` may be changed on return; the copy takes place in the stream's order.
  void write(DevicePointer target, std::span<const std::byte> host);
  /// Complete on return.
  void read(std::span<std::byte> host, DevicePointer source);

  static constexpr size_t BufferBytes = size_t(256) << 10;
  static constexpr size_t BufferCount = 16;

private:
  struct StagingBuffer {
    std::byte *memory = nullptr;
    EventHandle done = nullptr; ///< the last copy from or to it
  };
  StagingBuffer &next() { return buffers[turn++ % BufferCount]; }
  void release() noexcept;

  const Gpu &gpu;
  const StreamHandle stream;
  std::byte *memory = nullptr;
  std::vector<StagingBuffer> buffers;
  size_t turn = 0;
  std::mutex mutex;
};

} // namespace dtc::cuda
