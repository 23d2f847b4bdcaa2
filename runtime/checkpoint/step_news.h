// What each rank tells all others when a step is over, in one number.
#pragma once

#include <cstdint>

namespace dtc {

struct StepNews {
  int signal = 0;  ///< that asked this rank to stop; 0: none
  int phases = 0;  ///< of the checkpoint under way that this rank is through with
  int failure = 0; ///< exit code of what the checkpoint failed with here; 0: it did not

  int64_t pack() const { return signal | phases << 8 | failure << 16; }
  static StepNews unpack(int64_t packed) {
    return {static_cast<int>(packed & 0xff), static_cast<int>(packed >> 8 & 0xff), static_cast<int>(packed >> 16)};
  }
};

} // namespace dtc
