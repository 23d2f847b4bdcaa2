// Random streams of the model: a step's key and a place in the model name one.
#pragma once

#include "dialect/reference/HostTensor.h"
#include "runtime/abi/random.h"

namespace mlir::dt {

/// `key` is (seed, step, first sample, 0), as dt.random says.
inline uint32_t randomStream(const HostTensor &key, int64_t site) {
  auto word = [](double value) { return static_cast<uint32_t>(static_cast<int64_t>(value)); };
  return dtc::random::stream(word(key[0]), word(key[1]), static_cast<uint32_t>(site));
}

} // namespace mlir::dt
