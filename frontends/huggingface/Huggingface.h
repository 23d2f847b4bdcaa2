// Model directories in Hugging Face's layout.
#pragma once

#include "frontends/Frontend.h"

namespace dtc::huggingface {

/// The families that can be loaded, as in "gpt2, llama".
std::string familyNames();
/// The keys that each of them reads from a config.json, with defaults: the generated part of docs/families.md.
std::string describeFamilies();

/// Loads `directory`/config.json, whose "model_type" is one of the families of Families.h, and checks the names and
/// shapes of the weights next to it, if there are any. Throws Error (BadInput).
Model load(const std::string &directory, const ModelOptions &options, mlir::MLIRContext &context);

/// The same without a directory: see dtc::loadConfig.
Model loadConfig(const std::string &text, const std::string &name, const ModelOptions &options,
                 mlir::MLIRContext &context);

} // namespace dtc::huggingface
