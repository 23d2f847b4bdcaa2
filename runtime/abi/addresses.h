// Addresses of a command list: a space of the role that runs it, and bytes from the begin of a place of it. Roles of
// one list may lay out their memory each in its own way.
//
// Resolved, an address is a number of bytes. Those of the arena count from its begin. Those of spaces in the host's
// memory count from HostBegin on, which lies behind any arena: what is one range in a list is one range of numbers, the
// two memories do not meet, and no role need be known to tell them apart.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// Bits of an address that are bytes: more than any arena has.
inline constexpr unsigned OffsetBits = 48;

constexpr uint64_t addressOf(uint32_t space, uint64_t offset) { return uint64_t(space) << OffsetBits | offset; }
constexpr uint32_t spaceOf(uint64_t address) { return static_cast<uint32_t>(address >> OffsetBits); }
constexpr uint64_t offsetOf(uint64_t address) { return address & ((uint64_t(1) << OffsetBits) - 1); }

/// Where the addresses of the host's memory begin once they are resolved. Neither it nor an arena is larger.
inline constexpr uint64_t HostBegin = uint64_t(1) << (OffsetBits - 1);

/// Of resolved addresses.
constexpr bool isOfHost(uint64_t address) { return address >= HostBegin; }

/// The place of a space that an entry of a timetable names.
inline uint32_t placeOf(const TimetableEntry &entry, uint32_t space) {
  return space < uint32_t(entry.places_size()) ? entry.places(static_cast<int>(space)) : 0;
}

/// Bytes from the arena's begin; of an address in a space of the host's memory, HostBegin more than from that memory's.
/// Of an address in no space of the role: more than either has.
inline uint64_t arenaOffset(const Role &role, uint64_t address, uint32_t place = 0) {
  if (spaceOf(address) >= uint32_t(role.spaces_size()))
    return uint64_t(1) << OffsetBits;
  const Space &space = role.spaces(static_cast<int>(spaceOf(address)));
  uint64_t begin = space.kind() == Space::HOST ? HostBegin : 0;
  return begin + space.base() + place * space.stride() + offsetOf(address);
}

} // namespace dtc::abi
