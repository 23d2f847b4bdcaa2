// Which starts of a list are emitted as one start of several parts: on numbers alone, for all code that writes
// commands.
//
// dt-bucket-collectives says which starts belong together, and moves them and their waits next to each other. An order
// that somebody chooses may pull them apart again. So what is emitted as one is decided here, from the actual order:
// starts of one bucket with nothing between them, whose waits have nothing between them either. Then each part is under
// way exactly as long as it would be by itself, and nothing that was worked out for single starts changes: lifetimes,
// places, checks.
#pragma once

#include <span>
#include <vector>

namespace dtc {

/// What a list does, in order, as far as it matters for starts. Views are not included.
struct StartEvent {
  enum class Kind { Start, Wait, Other };
  Kind kind = Kind::Other;
  int start = -1;  ///< its number: a start's, or that of what is waited for
  int bucket = -1; ///< of a start: the bucket that it belongs to; -1: none
};

/// For each start, by number (there are `starts` of them): whether it is another part of the start before it.
std::vector<bool> joinStarts(std::span<const StartEvent> events, size_t starts);

} // namespace dtc
