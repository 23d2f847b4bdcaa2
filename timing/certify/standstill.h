// The words for what is wrong.
#pragma once

#include "timing/certify/execution.h"

#include <string>

namespace dtc::timing {

/// "in list 'forward' on micro-batch 2 (command 3)".
std::string textOf(const Place &place);

/// What a rank starts at `place`: "the all-reduce of 'h.3.attn' over ranks 0, 1", "the send of 'x' to rank 1".
std::string textOf(const Meetings &meetings, Meetings::Seat seat, int rank, const Place &place);

/// Who waits for whom, where no rank can go on and one of them waits: from a rank to one that has not started what it
/// waits for, or has something else before it, and so on until the chain closes, or ends at one that never starts it.
/// One sentence.
std::string describeStandstill(const Meetings &meetings, const State &state);

} // namespace dtc::timing
