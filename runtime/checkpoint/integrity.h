// Is a checkpoint what was written? Checksums beside the files say so (checksums.h).
#pragma once

#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/comm/communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// The name of the list of checksums in a checkpoint.
inline constexpr const char *ChecksumFile = "checksums.txt";

/// Holds every file of `directory` against its checksums; every rank reads some tensors. Collective. Throws Error
/// (BadInput) naming the first file or tensor that is missing or differs on the rank that found it, and Error without
/// words on the others.
void verifyCheckpoint(Communicator &communicator, const std::string &directory);

/// The checkpoint to go on from. `path` is one, or a folder of several, or a folder with a folder "checkpoints": then
/// the newest that is whole is taken, and `warn` is told on one rank of each that was passed over. Without `verify`
/// the newest is taken as it is. Collective. Throws Error (BadInput) when there is none.
std::string chooseCheckpoint(Communicator &communicator, const std::string &path, bool verify,
                             const std::function<void(const std::string &)> &warn);

} // namespace dtc
