// What a rank's process sees of its peers' memory.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc {

/// Bytes of its peers' arenas that the collectives of the first rank of a role read or write, in whole units of 64 KiB:
/// ranks of one host work in each other's memory, and the kernel counts what they touch for each of them. Not counted
/// is what is received by `recv`, since it does not say where the sender has it. 0 for more ranks than share a host.
uint64_t touchedPeerBytes(const abi::Manifest &manifest, const abi::Role &role);

} // namespace dtc
