// A GPU's copies that overlap its launches: one stream per channel.
#pragma once

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/device.h"
#include "runtime/support/not_copied.h"

#include <deque>
#include <map>
#include <vector>

namespace dtc::cuda {

/// The host waits for none of it: events order a channel's stream behind the launches before a copy, and the launches
/// after the wait for it behind the copy.
class SideCopies : NotCopied {
public:
  /// For copies that overlap the stream `launches`, which must not be captured while it is used here. Throws Error like
  /// Driver.
  SideCopies(const Gpu &gpu, StreamHandle launches);
  ~SideCopies();

  /// See Device::startCopy and Device::awaitCopy.
  Device::CopyHandle start(DevicePointer target, DevicePointer source, uint64_t bytes, uint32_t channel);
  void await(const Device::CopyHandle &copy);

  /// Created on first use.
  StreamHandle streamOf(uint32_t channel);
  /// Returns when all copies are over; immediately if the GPU is lost.
  void finish() noexcept;

private:
  struct Flight {
    uint64_t ticket;
    EventHandle end;
  };
  EventHandle takeEvent();

  const Gpu &gpu;
  const StreamHandle launches;
  std::map<uint32_t, StreamHandle> streams;
  EventHandle ready = nullptr; ///< work given before a copy is done
  std::deque<Flight> flights;  ///< not waited for yet
  std::vector<EventHandle> spare;
  uint64_t tickets = 0;
};

} // namespace dtc::cuda
