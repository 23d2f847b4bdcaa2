#include "runtime/device/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace dtc::cuda {

Staging::Staging(const Gpu &gpu, StreamHandle stream) : gpu(gpu), stream(stream), slots(Slots) {
  void *address = nullptr;
  gpu.driver.check(gpu.driver.memHostAlloc(&address, Slots * SlotBytes, 0), "cannot get pinned memory of the host");
  memory = static_cast<std::byte *>(address);
  for (size_t i = 0; i < Slots; ++i) {
    slots[i].memory = memory + i * SlotBytes;
    int result = gpu.driver.eventCreate(&slots[i].done, EventDisableTiming);
    if (result != Success)
      release();
    gpu.driver.check(result, "cannot make an event");
  }
}

Staging::~Staging() { release(); }

void Staging::release() noexcept {
  for (Slot &slot : slots)
    if (slot.done)
      gpu.driver.eventDestroy(slot.done);
  gpu.driver.memFreeHost(memory);
}

void Staging::write(DevicePointer target, std::span<const std::byte> host) {
  std::lock_guard lock(mutex);
  for (size_t begin = 0; begin < host.size(); begin += SlotBytes) {
    Slot &slot = next();
    gpu.await(slot.done); // what it held before is there
    size_t bytes = std::min(SlotBytes, host.size() - begin);
    std::memcpy(slot.memory, host.data() + begin, bytes);
    gpu.driver.check(gpu.driver.memcpyHtoDAsync(target + begin, slot.memory, bytes, stream), "cannot copy to the GPU");
    gpu.driver.check(gpu.driver.eventRecord(slot.done, stream), "cannot record an event");
  }
}

/// Two slots at a time: one is filled while the other is emptied.
void Staging::read(std::span<std::byte> host, DevicePointer source) {
  std::lock_guard lock(mutex);
  const Slot *full = nullptr;
  size_t fullBegin = 0;
  auto empty = [&](size_t end) {
    if (!full)
      return;
    gpu.await(full->done);
    std::memcpy(host.data() + fullBegin, full->memory, end - fullBegin);
  };
  for (size_t begin = 0; begin < host.size(); begin += SlotBytes) {
    Slot &slot = next();
    gpu.await(slot.done);
    size_t bytes = std::min(SlotBytes, host.size() - begin);
    gpu.driver.check(gpu.driver.memcpyDtoHAsync(slot.memory, source + begin, bytes, stream),
                     "cannot copy from the GPU");
    gpu.driver.check(gpu.driver.eventRecord(slot.done, stream), "cannot record an event");
    empty(begin);
    full = &slot;
    fullBegin = begin;
  }
  empty(host.size());
}

} // namespace dtc::cuda
