// The model families: each is a file of families/ that reads its keys of config.json and builds its forward pass.
#pragma once

#include "frontends/huggingface/Config.h"

namespace dtc::huggingface {

/// The dimensions of what one layer hands to the next.
inline constexpr llvm::StringRef residualDims[] = {"batch", "sequence", "embed"};

/// A family in two steps, so that sizes can be replaced between them.
class Family {
public:
  virtual ~Family() = default;
  /// The named sizes that the config states (not "batch" and "sequence").
  virtual Symbols symbols() const = 0;
  /// Writes the model onto tokens and returns the logits [batch, sequence, vocab] of the positions that are asked for.
  virtual mlir::Value build(ModelBuilder &builder) const = 0;
};

/// What a file of families/ says about its family.
struct FamilyDefinition {
  std::string_view modelType; ///< of config.json
  std::string_view title, papers;
  std::unique_ptr<Family> (*read)(Config &config, const ModelOptions &options);
  /// The values by key that its configuration class in transformers (version 5) takes where a file is silent, as far as
  /// they affect the model; values that follow from other keys are not included.
  ConfigValues defaults;
};

// One function for each file, such as defineLlama() in families/Llama.cpp. CMakeLists.txt lists them.
#define DTC_FAMILY(file) FamilyDefinition define##file();
#include "frontends/huggingface/families.inc"
#undef DTC_FAMILY

/// The defaults of the family of that model_type; empty where it is not known.
const ConfigValues &familyDefaults(std::string_view modelType);

/// `values` joined with `own`, which wins where both have a key.
ConfigValues joinDefaults(ConfigValues values, const ConfigValues &own);

} // namespace dtc::huggingface
