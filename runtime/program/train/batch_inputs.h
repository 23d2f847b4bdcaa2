// The inputs of a step that are sliced from samples: which part of each a rank stores. The step and `dtc verify` both
// fill inputs through this description, so that a wrong slice shows as a difference.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/data/sampler.h"

#include <cstdint>
#include <vector>

namespace dtc {

struct BatchInput {
  const abi::Tensor *tensor = nullptr;
  SamplePart part = SamplePart::Tokens;
  BatchSlice slice; ///< by this input's own sharding: tokens and targets may lie differently
};

/// The inputs of tokens and of next tokens, as many as the role of `rank` has, as it stores them. The manifest outlives
/// the result. Throws Error (BadInput) when they do not have the same rows and columns, or do not fit their shardings.
std::vector<BatchInput> batchInputsOf(const abi::Manifest &manifest, int rank);

} // namespace dtc
