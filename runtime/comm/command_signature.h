// What ranks tell each other before they carry a command out together: ranks that run different commands would deadlock
// or, worse, not.
#pragma once

#include "runtime/abi/mesh.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

struct Ticket;

/// What is carried out at once: the parts of a collective, or one command.
using Parts = std::span<const abi::Command *const>;

/// Notes in a rank's own ticket where its operands lie. Throws Error (BadInput) for more than abi::MaximumParts.
void noteOperands(Ticket &own, Parts parts);

/// The ranks that carry a command out together: those of the group, or the two of a transfer, the sender first.
std::vector<int> membersOf(const Group &group, const abi::Command &command);

/// A hash of everything that these members must agree on: all but the offsets. `step`: the one that was under way when
/// the command was started (Whereabouts): equal commands of different steps are not the same.
uint64_t signatureOf(const std::vector<int> &members, Parts parts, uint64_t step);

/// abi::bytesEach of all of them.
int64_t bytesEach(Parts parts);

/// Throws the Error that two ranks which brought different signatures get, the first of them in `step`.
[[noreturn]] void throwMismatch(int self, int other, const abi::Command &command, uint64_t step);

/// Throws Error, the same one on every member, where one of an all-to-all with counts would send another fewer than 0
/// or more rows than are meant for it. `counts`: those of each member, in the order of `ranks`, which are the job's
/// numbers of the members.
void requireCounts(const abi::Collective &collective, std::span<const int32_t> counts, const std::vector<int> &ranks);

/// Throws the Error for a kind of collective that a transport does not know.
[[noreturn]] void throwUnknownKind(const abi::Collective &collective);

} // namespace dtc
