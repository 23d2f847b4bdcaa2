// How much a command that communicates moves.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

#include <algorithm>
#include <cstdint>

namespace dtc::abi {

/// Bytes of the whole value that a collective over `ranks` ranks makes or takes apart: the larger of its operand and
/// its result.
inline double payloadBytes(const Collective &collective, int64_t ranks) {
  int64_t elements = std::max(inputElements(collective, ranks), outputElements(collective, ranks));
  return static_cast<double>(elements) * elementType(collective.type()).bytes;
}

/// Bytes that one rank sends, by the bandwidth-optimal algorithms: 2 (p-1)/p of the payload for an all-reduce
/// (Patarasuk and Yuan 2009), (p-1)/p for the others; an all-to-all's payload is what one rank holds.
inline double sentBytes(const Collective &collective, int64_t ranks) {
  double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks) * payloadBytes(collective, ranks);
  return collective.kind() == Collective::ALL_REDUCE ? 2 * share : share;
}

} // namespace dtc::abi
