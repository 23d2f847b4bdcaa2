// Work of the host that every rank does and any may fail at: reading files, writing checkpoints.
#pragma once

#include "runtime/comm/communicator.h"

#include <functional>

namespace dtc {

/// Runs `work` on every rank and returns when all are done. When some fail, the lowest of them throws what its work
/// threw, and all others an Error with the same exit code and no message: the user reads each mistake once. The
/// communicator stays usable.
void agree(Communicator &communicator, const std::function<void()> &work);

} // namespace dtc
