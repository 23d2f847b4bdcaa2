// What a rank's process sees of its peers' memory.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc {

/// Bytes in its peers' arenas that the collectives of the first rank of a role read or write, in whole units of 64 KiB:
/// ranks of one host access each other's memory, and the kernel counts what they touch for each of them. What `recv`
/// receives is not counted, since it does not say where the sender stores it. 0 for more ranks than one host has.
uint64_t touchedPeerBytes(const abi::Manifest &manifest, const abi::Role &role);

} // namespace dtc
