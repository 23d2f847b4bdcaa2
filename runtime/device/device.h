// What a rank computes on. The executor knows this interface and no device.
//
// A device does what it is given, launches and copies, in order; the caller may be ahead of it. An event says how far.
#pragma once

#include "runtime/abi/kernel.h"
#include "runtime/device/arena.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtc {

class Device {
public:
  /// A point in what was given to a device.
  using Event = uint64_t;

  virtual ~Device() = default;

  /// Memory for launches and copies, zero. [sharedBegin, bytes) can be shown to peers by a transport. Throws as Arena.
  virtual std::unique_ptr<Arena> allocate(uint64_t bytes, uint64_t sharedBegin) = 0;

  /// Runs `kernel` over [0, grid), in parts that begin at multiples of `grain`. Buffers and scalars stay until it is
  /// done.
  virtual void launch(dtc_kernel_fn kernel, void *const *buffers, const int64_t *scalars, int64_t grid,
                      int64_t grain) = 0;

  /// Copies between addresses of its memory, which do not overlap.
  virtual void copy(std::byte *target, const std::byte *source, uint64_t bytes) = 0;

  /// All that has been given so far.
  virtual Event record() = 0;
  /// Returns when that is done: the host and peers see its results.
  virtual void wait(Event event) = 0;
};

} // namespace dtc
