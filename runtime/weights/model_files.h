// The files in a model directory besides weights and config.json that accompany the model.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// Existing tokenizer files and the like. Calls `warn` for one that is too large and left out. Throws Error (BadInput)
/// naming a file that is a link to a file that fewer users may read than the directory's config.json.
std::vector<abi::ModelFile> readModelFiles(const std::filesystem::path &directory,
                                           const std::function<void(const std::string &)> &warn);

} // namespace dtc
