// What lies in a model directory beside weights and config.json and goes wherever the model goes.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// The tokenizer's files and the like that there are. `warn` hears of one that is too large and left out. Throws Error
/// (BadInput) naming a file that is a link to what fewer may read than the directory's config.json.
std::vector<abi::ModelFile> readModelFiles(const std::filesystem::path &directory,
                                           const std::function<void(const std::string &)> &warn);

} // namespace dtc
