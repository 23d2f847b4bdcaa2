// How fast the ranks of a job exchange data: measured through the transport itself, while nothing else runs.
#pragma once

#include "runtime/comm/communicator.h"

#include <string>
#include <vector>

namespace dtc {

/// Something that several ranks moved together.
struct MeasuredMove {
  std::string collective; ///< as cluster files name it; "send"; "loaded": a small one while a large one moves
  int ranks = 0;
  double bytes = 0;            ///< as abi::payloadBytes has them
  double seconds = 0;          ///< from the arrival of the last rank to the end on the last
  double processorSeconds = 0; ///< by which what a rank computes meanwhile takes longer, by the mean of the ranks
};

/// The memory that a rank shows for it, all of it shared.
inline constexpr int64_t LinkProbeBytes = int64_t(32) << 20;

/// Every collective among all ranks, and a message from the first to the last one, at sizes from 64 bytes to 16 MB, and
/// the smallest all-gather while the largest all-reduce is under way on another channel: the median of up to nine each,
/// and of as many with computation beside. Over slow links they are fewer, at least three, so that one takes about a
/// second. Called by all ranks, of which there are several, with memory of LinkProbeBytes; all get the same. The clocks
/// of hosts may differ.
std::vector<MeasuredMove> probeLinks(Communicator &communicator);

/// As text from a rank to `dtc calibrate`. Reading throws Error (Runtime) where it is not what was written.
std::string writeMoves(const std::vector<MeasuredMove> &moves);
std::vector<MeasuredMove> readMoves(const std::string &text);

} // namespace dtc
