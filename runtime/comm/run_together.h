// Host work that every rank does and that may fail on any rank, such as reading files or writing checkpoints.
#pragma once

#include "runtime/comm/communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

/// Runs `work` on every rank and returns when all are done. If some fail, the lowest of them throws what its work
/// threw, and all others throw an Error with the same exit code and no message: the user reads each error once. The
/// communicator stays usable.
void runTogether(Communicator &communicator, const std::function<void()> &work);

/// Each rank's text, in rank order. It exchanges eight characters at a time, so it is for short texts. Collective.
std::vector<std::string> exchangeText(Communicator &communicator, const std::string &mine);

/// The lowest rank whose number differs from rank 0's; 0 if there is none.
size_t firstOther(const std::vector<int64_t> &all);

/// Throws Error (BadInput) for a problem that every rank has found: with `words` on rank 0, without a message on the
/// others.
[[noreturn]] void refuseTogether(const Communicator &communicator, const std::string &words);

} // namespace dtc
