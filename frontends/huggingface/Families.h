// The model families: each reads its keys of config.json and builds its forward pass.
#pragma once

#include "frontends/huggingface/Config.h"

namespace dtc::huggingface {

/// A family in two steps, so that sizes can be replaced between them.
class Family {
public:
  virtual ~Family() = default;
  /// The named sizes that the config states (not "batch" and "sequence").
  virtual Symbols symbols() const = 0;
  /// Writes the model onto tokens and returns the logits [batch, sequence, vocab].
  virtual mlir::Value build(ModelBuilder &builder) const = 0;
};

using ReadFamily = std::unique_ptr<Family>(Config &config, const ModelOptions &options);

ReadFamily readGemma2, readGemma3, readGptNeox, readGpt2, readGranite, readLlama, readMistral, readOlmo2, readPhi3,
    readQwen2, readQwen3, readSmolLm3;

} // namespace dtc::huggingface
