// The simple first: among plans whose steps are about equally long, the one with the fewest ideas in it.
//
// Of plans within 3% of the fastest, the first in this lexicographic order is proposed:
//   1. fewer of: a pipeline, tensor parallelism, context parallelism
//   2. no tensor parallelism over links between nodes
//   3. state split less: ddp, zero1, zero2, zero3, hsdp
//   4. less recomputed: none, cheap, regather, selective, full
//   5. the timetable that the table of timing/timetables/named.h has earlier, 1f1b before all others
//   6. no split of the sequence
//   7. fewer micro-batches
//   8. the shorter step
#pragma once

#include "timing/plans/search.h"

#include <string>
#include <vector>

namespace dtc::plans {

inline constexpr double aboutEqual = 0.03;

/// Those that fit: first the one that is proposed, then all others by the length of their steps.
std::vector<size_t> ranked(const Problem &problem, std::span<const Evaluated> evaluated, double within = aboutEqual);

/// In words, which rule decided that `first` comes before `second`: "its step is 12% shorter", "it has no pipeline, and
/// its step is only 1.2% longer".
std::string whyBefore(const Problem &problem, const Evaluated &first, const Evaluated &second);

} // namespace dtc::plans
