// A call of code on poisoned memory: what it stores must lie within bounds, and nothing else may change, not a byte.
#pragma once

#include "runtime/abi/element_type.h"
#include "tools/verify/RoundingBounds.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc::verify {

/// A buffer of the call. Lists of elements are rising.
struct CalledBuffer {
  std::string name;
  const abi::ElementType &type;
  int64_t size = 0;                   ///< elements
  int over = -1;                      ///< the buffer whose memory this one is; -1: it has its own
  std::vector<int64_t> read = {};     ///< elements that hold something
  std::vector<double> values = {};    ///< of these
  std::vector<int64_t> written = {};  ///< elements that may change
  std::vector<int64_t> compared = {}; ///< those of them that must be within `bounds`
  std::vector<Bounds> bounds = {};
};

/// Calls `code` on the buffers' addresses and gives the first element or byte that is wrong; empty: there is none.
/// Buffers begin `shift` elements after a multiple of 4096 bytes.
std::string callOnPoison(const std::vector<CalledBuffer> &buffers, int64_t shift,
                         const std::function<void(void *const *)> &code);

} // namespace dtc::verify
