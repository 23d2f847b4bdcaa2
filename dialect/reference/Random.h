// Random streams of the model: a step's key and a place in the model name one.
#pragma once

#include "dialect/IR/HostTensor.h"
#include "runtime/abi/random.h"

#include <cmath>

namespace mlir::dt {

/// A word of a key: (seed, step, first sample, 0), as dt.random says. A word that nobody has written is NaN, and counts
/// as 0.
inline int64_t keyWord(const HostTensor &key, int64_t index) {
  return std::isnan(key[index]) ? 0 : static_cast<int64_t>(key[index]);
}

inline uint32_t randomStream(const HostTensor &key, int64_t site) {
  return dtc::random::stream(static_cast<uint32_t>(keyWord(key, 0)), static_cast<uint32_t>(keyWord(key, 1)),
                             static_cast<uint32_t>(site));
}

} // namespace mlir::dt
