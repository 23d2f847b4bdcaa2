#include "runtime/liveness/doorbells.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dtc {

void Doorbells::sleep(std::atomic<uint32_t> &doorbell, uint32_t value, std::chrono::nanoseconds most) {
  timespec timeout{0, most.count()};
  syscall(SYS_futex, &doorbell, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void Doorbells::ring(uint32_t lane, int rank) noexcept {
  std::atomic<uint32_t> &doorbell = memory.laneState(lane, rank).doorbell;
  doorbell.fetch_add(1);
  syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A rank that is about to sleep sets its flag before its last check, so no ring is lost.
void Doorbells::ringAll() noexcept {
  for (uint32_t lane = 0; lane < ControlMemory::Lanes; ++lane)
    for (int rank = 0; rank < memory.ranks(); ++rank)
      if (memory.laneState(lane, rank).sleeping.load(std::memory_order_seq_cst))
        ring(lane, rank);
}

} // namespace dtc
