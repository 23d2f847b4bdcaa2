// Work of the host that every rank does and any may fail at: reading files, writing checkpoints.
#pragma once

#include "runtime/comm/communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// Runs `work` on every rank and returns when all are done. When some fail, the lowest of them throws what its work
/// threw, and all others an Error with the same exit code and no message: the user reads each mistake once. The
/// communicator stays usable.
void runTogether(Communicator &communicator, const std::function<void()> &work);

/// Each rank's words, in the order of ranks. Eight letters at a time: for short ones. Collective.
std::vector<std::string> exchangeText(Communicator &communicator, const std::string &mine);

/// The lowest rank whose number is not rank 0's; 0 when there is none.
size_t firstOther(const std::vector<int64_t> &all);

/// Throws Error (BadInput) for what every rank has found: with `words` on rank 0, without on the others.
[[noreturn]] void refuseTogether(const Communicator &communicator, const std::string &words);

} // namespace dtc
