// What each rank tells all others when a step is over, in one number.
#pragma once

#include <cstdint>

namespace dtc {

struct StepNews {
  int signal = 0;  ///< that asked this rank to stop; 0: none
  int phases = 0;  ///< of the checkpoint under way that this rank is through with
  int failure = 0; ///< exit code of what the checkpoint failed with here; 0: it did not
  /// Steps from one comparison of replicas to the next as this rank would have it, up to MostInterval; 0: not known
  /// yet.
  int64_t interval = 0;

  static constexpr int64_t MostInterval = (int64_t(1) << 39) - 1;

  int64_t pack() const { return signal | phases << 8 | failure << 16 | interval << 24; }
  static StepNews unpack(int64_t packed) {
    auto byteAt = [&](int bit) { return static_cast<int>(packed >> bit & 0xff); };
    return {byteAt(0), byteAt(8), byteAt(16), packed >> 24};
  }
};

} // namespace dtc
