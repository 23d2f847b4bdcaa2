// A device's memory as the executor sees it: offsets in, addresses out.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstddef>
#include <cstdint>

namespace dtc {

class Arena;

/// One contiguous range of a device's addresses. [0, sharedBegin) is private; [sharedBegin, bytes) may be shown to
/// peers by a transport.
///
/// An address is for the device alone: for launches and copies, and for Device::read and Device::write, which are how
/// the host looks at what lies there. A device whose memory the host cannot reach has no host() to offer; it brings a
/// transport of its own for programs of several ranks, and makes fresh memory zero.
class Memory : NotCopied {
public:
  virtual ~Memory() = default;

  std::byte *base() const { return memory; }
  uint64_t bytes() const { return size; }
  uint64_t sharedBegin() const { return shared; }

  /// The host memory behind it, which transports map; null: none.
  virtual Arena *host() { return nullptr; }

protected:
  Memory(uint64_t bytes, uint64_t sharedBegin) : size(bytes), shared(sharedBegin) {}

  std::byte *memory = nullptr;
  uint64_t size, shared;
};

} // namespace dtc
