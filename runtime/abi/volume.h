// How many bytes a communicating command moves.
#pragma once

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"

#include <algorithm>
#include <cstdint>

namespace dtc::abi {

/// Bytes of the whole value that a collective over `ranks` ranks assembles or splits: the larger of its operand and its
/// result, with the logarithms of its rows. For an all-to-all with counts, as if all rows were sent.
inline double payloadBytes(const Collective &collective, int64_t ranks) {
  int64_t elements = std::max(inputElements(collective, ranks), outputElements(collective, ranks));
  int64_t logs = std::max(inputLogs(collective, ranks), outputLogs(collective));
  return static_cast<double>(elements) * elementType(collective.type()).bytes +
         static_cast<double>(logs) * elementType(F32).bytes;
}

/// Bytes that one rank sends of such a payload, by the bandwidth-optimal algorithms: 2 (p-1)/p of it for an all-reduce
/// (Patarasuk and Yuan 2009), and (p-1)/p of it for the others. An all-to-all's payload is what one rank holds.
inline double sentBytes(Collective::Kind kind, double payload, int64_t ranks) {
  double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks) * payload;
  return kind == Collective::ALL_REDUCE ? 2 * share : share;
}
inline double sentBytes(const Collective &collective, int64_t ranks) {
  return sentBytes(collective.kind(), payloadBytes(collective, ranks), ranks);
}

/// Bytes that a rank contributes to a command, or gets from it, per peer: distinguishes short commands from long ones.
inline int64_t bytesEach(const Command &command) {
  if (!command.has_start())
    return transferOf(command).elements() * elementType(transferOf(command).type()).bytes;
  const Collective &collective = command.start();
  int64_t rows = collective.outer() * std::max<int64_t>(collective.middle(), 1);
  return rows * collective.chunk() * elementType(collective.type()).bytes +
         outputLogs(collective) * elementType(F32).bytes;
}

} // namespace dtc::abi
