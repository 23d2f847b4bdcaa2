// A rank's memory on the host: one contiguous range of addresses that holds everything the compiled program touches.
#pragma once

#include "runtime/device/memory.h"

#include <cstddef>
#include <cstdint>

namespace dtc {

/// [0, sharedBegin) is private; [sharedBegin, bytes) is read, and by all-reduce written, by peers. Both parts use huge
/// pages if the system grants them. Fresh memory is zero.
class Arena final : public Memory {
public:
  /// Addresses and file offsets of shared memory are multiples of this, so that huge pages can back them.
  static constexpr uint64_t Alignment = uint64_t(2) << 20;

  /// Throws Error (Runtime) when the system refuses the memory, Error (BadInput) when sharedBegin > bytes.
  Arena(uint64_t bytes, uint64_t sharedBegin);
  ~Arena() override;

  Arena *host() override { return this; }

  /// The part that is mapped for peers: the shared part, widened to multiples of Alignment.
  uint64_t mappedBegin() const { return shared / Alignment * Alignment; }
  uint64_t mappedBytes() const { return shared == size ? 0 : reserved - mappedBegin(); }

  /// Replaces the mapped part by `file` from `offset` (a multiple of Alignment) and reserves its memory now, so that
  /// a shortage is an Error here and not a crash later.
  void mapShared(int file, uint64_t offset);

private:
  uint64_t reserved;
};

/// Maps another rank's shared part. Returns the address that corresponds to offset 0 of that rank's arena: only
/// [mappedBegin, mappedBegin + mappedBytes) from there may be touched. Unmap with unmapPeer.
std::byte *mapPeer(int file, uint64_t offset, uint64_t mappedBegin, uint64_t mappedBytes);
void unmapPeer(std::byte *base, uint64_t mappedBegin, uint64_t mappedBytes) noexcept;

} // namespace dtc
