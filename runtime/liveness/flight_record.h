// The last commands of every rank of a host, written when a job stops because of a failure. They come from memory that
// outlives the processes, so they include ranks that were killed.
#pragma once

#include "runtime/liveness/control_block.h"
#include "runtime/liveness/heart.h"

#include <string>

namespace dtc {

/// The last commands of each rank of `control`, the newest last, with how long before now they began:
///
///   rank 1: step 12, 4811 commands; waits for others
///     0.812 s ago  step 12  list 'micro', command 7 (h.0.attn)
///
/// `describe`: see there.
std::string printFlightRecord(const ControlBlock &control, const DescribePlace &describe);

/// Writes it into the folder that the ranks have set (Whereabouts::noteFolder), as flight-record.txt, or with several
/// hosts as flight-record.NODE.txt if `node` is not empty. Returns the path; empty if no rank has set a folder or it
/// cannot be written.
std::string writeFlightRecord(const ControlBlock &control, const DescribePlace &describe, const std::string &node);

} // namespace dtc
