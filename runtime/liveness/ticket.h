// What a rank tells its peers at the start of a collective, in shared memory.
#pragma once

#include "runtime/abi/groups.h"

#include <cstdint>

namespace dtc {

/// Written before the members synchronise, read after it.
struct Ticket {
  struct Operands {
    uint64_t input, output; ///< offsets in its arena
    /// Likewise: of LOG_SUM_EXP the logarithms of input and output, of an all-to-all with counts the counts.
    uint64_t besideInput, besideOutput;
  };
  Operands parts[abi::MaximumParts]; ///< of a collective of several parts, of each
  uint64_t signature;                ///< hash of everything the members must agree on
  int64_t value;                     ///< for exchange()
};

} // namespace dtc
