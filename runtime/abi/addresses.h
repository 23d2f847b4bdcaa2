// Addresses in a command list: a space of the role that runs the list, and a byte offset into a place of that space.
// Roles that share a list may lay out their memory differently.
//
// A resolved address is a number of bytes. Addresses in the arena count from its start. Addresses in the host's memory
// count from HostBegin, which is past the end of any arena. So one range in a list stays one range of numbers, the two
// memories never overlap, and telling them apart takes no knowledge of the role.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// The bits of an address that hold the byte offset: enough for any arena.
inline constexpr unsigned OffsetBits = 48;

constexpr uint64_t addressOf(uint32_t space, uint64_t offset) { return uint64_t(space) << OffsetBits | offset; }
constexpr uint32_t spaceOf(uint64_t address) { return static_cast<uint32_t>(address >> OffsetBits); }
constexpr uint64_t offsetOf(uint64_t address) { return address & ((uint64_t(1) << OffsetBits) - 1); }

/// Where resolved addresses of the host's memory begin. Neither the host's memory nor an arena is larger than this.
inline constexpr uint64_t HostBegin = uint64_t(1) << (OffsetBits - 1);

/// Whether a resolved address is in the host's memory.
constexpr bool isOfHost(uint64_t address) { return address >= HostBegin; }

/// The place of a space that a timetable entry names.
inline uint32_t placeOf(const TimetableEntry &entry, uint32_t space) {
  return space < uint32_t(entry.places_size()) ? entry.places(static_cast<int>(space)) : 0;
}

/// Bytes from the arena's start; for an address in the host's memory, HostBegin plus the bytes from that memory's
/// start. For an address in no space of the role: a number past the end of both.
inline uint64_t arenaOffset(const Role &role, uint64_t address, uint32_t place = 0) {
  if (spaceOf(address) >= uint32_t(role.spaces_size()))
    return uint64_t(1) << OffsetBits;
  const Space &space = role.spaces(static_cast<int>(spaceOf(address)));
  uint64_t begin = space.kind() == Space::HOST ? HostBegin : 0;
  return begin + space.base() + place * space.stride() + offsetOf(address);
}

} // namespace dtc::abi
