// Checks that a checkpoint is what was written, by the checksums next to the files (checksums.h).
#pragma once

#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/readers.h"
#include "runtime/comm/communicator.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace dtc {

/// A checkpoint's checksums, by file and tensor.
using ChecksumList = std::map<std::pair<std::string, std::string>, uint64_t>;

/// Throws Error (BadInput) if the list is missing or damaged.
ChecksumList readChecksums(const std::string &directory);

/// Verifies the checksums of every file of `directory`: each host checks all files, and each tensor is checked by one
/// of the ranks that see the folder. Collective. Throws Error (BadInput) naming the first file or tensor that is
/// missing, differs, or would be read without being listed, on the rank that found it, and an Error without a message
/// on the others.
void verifyCheckpoint(Communicator &communicator, const std::string &directory);

/// This rank's part of verifyCheckpoint.
void verifyShare(const std::string &directory, const Readers &readers);

/// The checkpoint to resume from. `path` is one, or a folder of several, or a folder with a folder "checkpoints". From
/// a folder it takes the newest intact one, and calls `warn` on one rank for each that it skips. Without `verify` it
/// takes the newest without checking. Rank 0 chooses; the other ranks find the checkpoint of that step under their own
/// `path`. On a host that lacks it, it counts as damaged. Collective. Throws Error (BadInput) when there is none.
std::string chooseCheckpoint(Communicator &communicator, const std::string &path, bool verify,
                             const std::function<void(const std::string &)> &warn);

} // namespace dtc
