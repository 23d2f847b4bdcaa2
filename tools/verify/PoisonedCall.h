// A call of code on memory that is poisoned around every element that the call may read or write: each element that is
// stored must be within bounds, and nothing else may change, not even a byte.
#pragma once

#include "runtime/abi/element_type.h"
#include "tools/verify/RoundingBounds.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc::verify {

/// A buffer of the call. Lists of elements are in ascending order.
struct CalledBuffer {
  std::string name;
  const abi::ElementType &type;
  int64_t size;                       ///< elements
  int64_t shift;                      ///< begins this many elements after a multiple of 4096 bytes
  int over = -1;                      ///< an earlier buffer whose memory it shares; -1: it has its own
  std::vector<int64_t> read = {};     ///< elements that have values
  std::vector<double> values = {};    ///< of these elements
  std::vector<int64_t> written = {};  ///< elements that may change
  std::vector<int64_t> compared = {}; ///< those of them that must be within `bounds`
  std::vector<Bounds> bounds = {};
};

/// Calls the code on buffers. Returns what went wrong where the callee knows; empty: nothing.
using KernelCall = std::function<std::string(const std::vector<void *> &buffers)>;

struct CallResult {
  std::string failure; ///< empty: correct; otherwise the callee's message, or the first wrong element or byte
  uint64_t stored;     ///< a hash of the bits of all that may change
};

CallResult callOnPoison(const std::vector<CalledBuffer> &buffers, const KernelCall &call);

} // namespace dtc::verify
