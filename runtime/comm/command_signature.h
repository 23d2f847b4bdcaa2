// What ranks exchange before they run a command together. Ranks that run different commands would otherwise deadlock
// or, worse, silently go on.
#pragma once

#include "runtime/abi/mesh.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

struct Ticket;

/// What runs together: the parts of a collective, or one command.
using Parts = std::span<const abi::Command *const>;

/// Records in a rank's own ticket where its operands are. Throws Error (BadInput) for more than abi::MaximumParts.
void noteOperands(Ticket &own, Parts parts);

/// The ranks that run a command together: all of the group, or for a transfer the sender, then the receiver.
std::vector<int> membersOf(const Group &group, const abi::Command &command);

/// A hash of everything that these members must agree on: all but the offsets. `step`: the step for which the command
/// was started (Whereabouts); equal commands of different steps are not the same.
uint64_t signatureOf(const std::vector<int> &members, Parts parts, uint64_t step);

/// The sum of abi::bytesEach over all parts.
int64_t bytesEach(Parts parts);

/// Throws the Error for two ranks with different signatures; `step` is that of `self`.
[[noreturn]] void throwMismatch(int self, int other, const abi::Command &command, uint64_t step);

/// Throws Error, the same on every member, if a member of an all-to-all with counts would send another one fewer than 0
/// rows or more than are meant for it. `counts`: each member's counts, in the order of `ranks`, which are the members'
/// numbers in the job.
void requireCounts(const abi::Collective &collective, std::span<const int32_t> counts, const std::vector<int> &ranks);

/// Throws the Error for a kind of collective that a transport does not support.
[[noreturn]] void throwUnknownKind(const abi::Collective &collective);

} // namespace dtc
