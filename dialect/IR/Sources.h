// Sources of inputs, as the manifest has them.
#pragma once

#include "dialect/IR/Attributes.h"
#include "runtime/abi/manifest.pb.h"

namespace mlir::dt {

inline dtc::abi::Source::Kind abiKindOf(SourceKind kind) {
  switch (kind) {
  case SourceKind::Tokens:
    return dtc::abi::Source::TOKENS;
  case SourceKind::NextTokens:
    return dtc::abi::Source::NEXT_TOKENS;
  case SourceKind::Key:
    return dtc::abi::Source::KEY;
  case SourceKind::LearningRate:
    return dtc::abi::Source::LEARNING_RATE;
  case SourceKind::BiasCorrection:
    return dtc::abi::Source::BIAS_CORRECTION;
  case SourceKind::LossScale:
    return dtc::abi::Source::LOSS_SCALE;
  case SourceKind::DocumentStarts:
    return dtc::abi::Source::DOCUMENT_STARTS;
  case SourceKind::Positions:
    return dtc::abi::Source::POSITIONS;
  case SourceKind::LastPosition:
    return dtc::abi::Source::LAST_POSITION;
  }
  llvm_unreachable("all kinds are covered");
}

/// NONE where there is no source; programs may not have that.
inline dtc::abi::Source abiSourceOf(SourceAttr source) {
  dtc::abi::Source out;
  if (source)
    out.set_kind(abiKindOf(source.getKind()));
  if (source && source.getSetting())
    out.set_setting(source.getSetting().str());
  return out;
}

} // namespace mlir::dt
