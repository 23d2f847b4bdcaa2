// What ranks tell each other before they carry a command out together: ranks that run different commands would deadlock
// or, worse, not.
#pragma once

#include "runtime/comm/mesh.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// The ranks that carry a command out together: those of the group, or the two of a transfer, the sender first.
std::vector<int> membersOf(const Group &group, const abi::Command &command);

/// A hash of everything that these members must agree on: all but the offsets. `step`: the one that was under way when
/// the command was started (Whereabouts): equal commands of different steps are not the same.
uint64_t signatureOf(const std::vector<int> &members, const abi::Command &command, uint64_t step);

/// Throws the Error that two ranks which brought different signatures get, the first of them in `step`.
[[noreturn]] void throwDisagreement(int self, int other, const abi::Command &command, uint64_t step);

/// Throws the Error for a kind of collective that a transport does not know.
[[noreturn]] void throwUnknownKind(const abi::Collective &collective);

} // namespace dtc
