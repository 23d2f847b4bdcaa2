// How sleeping ranks are woken: each rank has a doorbell on each lane, on which it sleeps.
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
  /// Rings the doorbells of all ranks that sleep or are about to.
  void ringAll() noexcept;
  /// Sleeps until `doorbell` is rung, for at most `most`; returns at once if it is no longer at `value`.
  static void sleep(std::atomic<uint32_t> &doorbell, uint32_t value, std::chrono::nanoseconds most);

private:
  ControlMemory memory;
};

} // namespace dtc
