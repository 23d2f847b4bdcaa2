// How fast ranks of this host exchange data: through the transport itself.
#pragma once

#include <string>
#include <vector>

namespace dtc {

/// Something that several ranks moved together.
struct MeasuredMove {
  std::string collective; ///< as cluster files name it; "send"
  int ranks = 0;
  double bytes = 0;   ///< as abi::payloadBytes has them
  double seconds = 0; ///< from the arrival of the last rank to the end on the last
};

/// Every collective, and a message, over so many ranks, which are processes, at sizes from 64 bytes to 16 MB: the
/// median of some, each from the arrival of the last rank to the end on the last. Nothing else runs beside. Throws
/// Error (Runtime) where a rank fails.
std::vector<MeasuredMove> probeLinks(int ranks);

} // namespace dtc
