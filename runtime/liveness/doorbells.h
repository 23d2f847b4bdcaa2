// How ranks that sleep are woken: each has a doorbell on each lane, on which it sleeps.
#pragma once

#include "runtime/liveness/control_memory.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dtc {

class Doorbells {
public:
  explicit Doorbells(const ControlMemory &memory) : memory(memory) {}

  void ring(uint32_t lane, int rank) noexcept;
  /// Those of all who sleep or are about to.
  void ringAll() noexcept;
  /// Sleeps until `doorbell` is rung, for `most` at the most; returns at once where it is no longer at `value`.
  static void sleep(std::atomic<uint32_t> &doorbell, uint32_t value, std::chrono::nanoseconds most);

private:
  ControlMemory memory;
};

} // namespace dtc
