// What a rank publishes to its peers in shared memory at the start of a collective.
#pragma once

#include "runtime/abi/groups.h"

#include <cstdint>

namespace dtc {

/// Written before the members synchronise, read after it.
struct Ticket {
  struct Operands {
    uint64_t input, output; ///< offsets in its arena
    /// Likewise: for LOG_SUM_EXP the logarithms of input and output, for an all-to-all with counts the counts.
    uint64_t besideInput, besideOutput;
  };
  Operands parts[abi::MaximumParts]; ///< one per part of a collective
  uint64_t signature;                ///< hash of everything the members must agree on
  int64_t value;                     ///< for exchange()
};

} // namespace dtc
