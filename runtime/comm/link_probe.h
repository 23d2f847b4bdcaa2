// How fast the ranks of a job exchange data: measured through the transport itself, while nothing else runs.
#pragma once

#include "runtime/comm/communicator.h"

#include <string>
#include <vector>

namespace dtc {

/// Something that several ranks moved together.
struct MeasuredMove {
  std::string collective; ///< as in cluster files; "send"; "loaded": a small one while a large one moves
  int ranks = 0;
  double bytes = 0;            ///< as abi::payloadBytes counts them
  double seconds = 0;          ///< from the arrival of the last rank to the end on the last
  double processorSeconds = 0; ///< how much longer a rank's concurrent computation takes, mean over the ranks
};

/// The memory that a rank provides for probeLinks, all of it shared.
inline constexpr int64_t LinkProbeBytes = int64_t(32) << 20;

/// Every collective among all ranks, and a message from the first to the last one, at sizes from 64 bytes to 16 MB, and
/// the smallest all-gather while the largest all-reduce runs on another channel. Each result is the median of up to
/// nine runs, and of as many with concurrent computation. Slow links get fewer runs, at least three, so that one probe
/// takes about a second. Called by all ranks, of which there must be several, with LinkProbeBytes of memory; all get
/// the same result. The clocks of hosts may differ.
std::vector<MeasuredMove> probeLinks(Communicator &communicator);

/// The text that a rank sends to `dtc calibrate`. Reading throws Error (Runtime) if it is malformed.
std::string writeMoves(const std::vector<MeasuredMove> &moves);
std::vector<MeasuredMove> readMoves(const std::string &text);

} // namespace dtc
