// Finding checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

/// The checkpoints that `path` means, newest first: itself, or those in it or in its folder "checkpoints". Throws Error
/// (BadInput) when there is none.
std::vector<std::string> findCheckpoints(const std::string &path);

/// The checkpoints in a folder, newest first.
std::vector<std::string> listCheckpoints(const std::string &folder);

/// N of a checkpoint's path ".../step-N"; nullopt for any other path.
std::optional<int64_t> checkpointStep(const std::string &path);

} // namespace dtc
