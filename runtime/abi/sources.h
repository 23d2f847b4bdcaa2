// Where the host gets the numbers of inputs.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::abi {

/// Whether it is sliced from the samples of a micro-batch, [rows, sequence]. The sharding decides which part a rank
/// has.
inline bool isOfSamples(const Source &source) {
  return source.kind() == Source::TOKENS || source.kind() == Source::NEXT_TOKENS ||
         source.kind() == Source::DOCUMENT_STARTS;
}
inline bool isOfSamples(const Tensor &tensor) { return tensor.kind() == Tensor::INPUT && isOfSamples(tensor.source()); }

/// "TOKENS"; for an unknown kind its number.
inline std::string describe(Source::Kind kind) {
  return Source::Kind_IsValid(kind) ? Source::Kind_Name(kind) : std::to_string(static_cast<int>(kind));
}
/// "BIAS_CORRECTION of beta1".
inline std::string describe(const Source &source) {
  return describe(source.kind()) + (source.setting().empty() ? "" : " of " + source.setting());
}

} // namespace dtc::abi
