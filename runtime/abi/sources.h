// Where the numbers of inputs come from.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::abi {

/// Cut from the samples of a micro-batch, [rows, sequence]: which part of it a rank has follows from the sharding.
inline bool isOfSamples(const Source &source) {
  return source.kind() == Source::TOKENS || source.kind() == Source::NEXT_TOKENS ||
         source.kind() == Source::DOCUMENT_STARTS;
}
inline bool isOfSamples(const Tensor &tensor) { return tensor.kind() == Tensor::INPUT && isOfSamples(tensor.source()); }

/// "TOKENS"; the number of a kind that there is not.
inline std::string describe(Source::Kind kind) {
  return Source::Kind_IsValid(kind) ? Source::Kind_Name(kind) : std::to_string(static_cast<int>(kind));
}
/// "BIAS_CORRECTION of beta1".
inline std::string describe(const Source &source) {
  return describe(source.kind()) + (source.setting().empty() ? "" : " of " + source.setting());
}

} // namespace dtc::abi
