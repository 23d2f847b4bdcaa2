// Memory over the commands of a list: which temporaries are alive, and up to where they reach in the arena.
//
// What lives for the whole run, and what micro-batches under way have for themselves, takes the same room all the time
// (abi::Role::memory says how much). Temporaries come and go: one lives from the command that writes it to the last
// that reads it; what is moved, until it has been waited for. Here this is found from the list alone, as the executor
// runs it.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <vector>

namespace dtc::timing {

struct MemoryAt {
  uint64_t live = 0;          ///< bytes of temporaries that hold something
  uint64_t privateEnd = 0;    ///< bytes from the begin of its space to the end of the highest live one; 0: none
  uint64_t registeredEnd = 0; ///< likewise, where peers see it
  bool operator==(const MemoryAt &) const = default;
};

/// While each command of `list` runs, for a role that runs it. The manifest has been validated.
std::vector<MemoryAt> memoryOverList(const abi::Manifest &manifest, const abi::Role &role,
                                     const abi::CommandList &list);

} // namespace dtc::timing
