// Is a checkpoint what was written? Checksums beside the files say so (checksums.h).
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

/// What a checkpoint's list says, by file and tensor.
using ChecksumList = std::map<std::pair<std::string, std::string>, uint64_t>;

/// Throws Error (BadInput) where the list is missing or damaged.
ChecksumList readChecksums(const std::string &directory);

/// Holds every file of `directory` against its checksums: on each host all of them, each tensor by one of the ranks
/// that see the folder. Collective. Throws Error (BadInput) naming the first file or tensor that is missing, differs,
/// or would be read without being listed, on the rank that found it, and Error without words on the others.
void verifyCheckpoint(Communicator &communicator, const std::string &directory);

/// This rank's part of that.
void verifyShare(const std::string &directory, const Readers &readers);

/// The checkpoint to go on from. `path` is one, or a folder of several, or a folder with a folder "checkpoints": then
/// the newest that is whole is taken, and `warn` is told on one rank of each that was passed over. Without `verify`
/// the newest is taken as it is. Rank 0 chooses; the others find the one of that step under their own `path`, and a
/// host that lacks it counts as one on which it is damaged. Collective. Throws Error (BadInput) when there is none.
std::string chooseCheckpoint(Communicator &communicator, const std::string &path, bool verify,
                             const std::function<void(const std::string &)> &warn);

} // namespace dtc
