#include "runtime/device/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace dtc::cuda {

Staging::Staging(const Gpu &gpu, StreamHandle stream) : gpu(gpu), stream(stream), buffers(BufferCount) {
  void *address = nullptr;
  gpu.driver.check(gpu.driver.memHostAlloc(&address, BufferCount * BufferBytes, 0),
                   "cannot get pinned memory of the host");
  memory = static_cast<std::byte *>(address);
  for (size_t i = 0; i < BufferCount; ++i) {
    buffers[i].memory = memory + i * BufferBytes;
    int result = gpu.driver.eventCreate(&buffers[i].done, EventDisableTiming);
    if (result != Success)
      release();
    gpu.driver.check(result, "cannot make an event");
  }
}

Staging::~Staging() { release(); }

void Staging::release() noexcept {
  for (StagingBuffer &buffer : buffers)
    if (buffer.done)
      gpu.driver.eventDestroy(buffer.done);
  gpu.driver.memFreeHost(memory);
}

void Staging::write(DevicePointer target, std::span<const std::byte> host) {
  std::lock_guard lock(mutex);
  for (size_t begin = 0; begin < host.size(); begin += BufferBytes) {
    StagingBuffer &buffer = next();
    gpu.await(buffer.done); // its previous contents have been copied
    size_t bytes = std::min(BufferBytes, host.size() - begin);
    std::memcpy(buffer.memory, host.data() + begin, bytes);
    gpu.driver.check(gpu.driver.memcpyHtoDAsync(target + begin, buffer.memory, bytes, stream),
                     "cannot copy to the GPU");
    gpu.driver.check(gpu.driver.eventRecord(buffer.done, stream), "cannot record an event");
  }
}

/// Two buffers at a time: one is filled while the other is emptied.
void Staging::read(std::span<std::byte> host, DevicePointer source) {
  std::lock_guard lock(mutex);
  const StagingBuffer *full = nullptr;
  size_t fullBegin = 0;
  auto empty = [&](size_t end) {
    if (!full)
      return;
    gpu.await(full->done);
    std::memcpy(host.data() + fullBegin, full->memory, end - fullBegin);
  };
  for (size_t begin = 0; begin < host.size(); begin += BufferBytes) {
    StagingBuffer &buffer = next();
    gpu.await(buffer.done);
    size_t bytes = std::min(BufferBytes, host.size() - begin);
    gpu.driver.check(gpu.driver.memcpyDtoHAsync(buffer.memory, source + begin, bytes, stream),
                     "cannot copy from the GPU");
    gpu.driver.check(gpu.driver.eventRecord(buffer.done, stream), "cannot record an event");
    empty(begin);
    full = &buffer;
    fullBegin = begin;
  }
  empty(host.size());
}

} // namespace dtc::cuda
