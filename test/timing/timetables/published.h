// Timetables that others have published, as text. Facts of PyTorch's test files, which are made by a rule.
#pragma once

#include <string>

namespace dtc::test {

/// zb1p_2rank_2stagep_compute.csv, in its form since I and W are PyTorch's letters: two ranks, four stages in a loop,
/// eight micro-batches. Rank 0 begins 0F0,0F1,2F0, waits, and goes on 2F1,2I0,2W0,0F2; rank 1 waits once at first.
inline std::string interleavedZeroBubbleOfPyTorch() {
  std::string first = "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2",
              second = ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2";
  for (int micro = 4; micro <= 6; micro += 2) {
    std::string a = std::to_string(micro), b = std::to_string(micro + 1), c = std::to_string(micro - 2),
                d = std::to_string(micro - 1);
    first += ",0F" + a + ",2I" + d + ",2W" + d + ",0F" + b + ",0I" + c + ",0W" + c + ",2F" + a + ",0I" + d + ",0W" + d +
             ",2F" + b + ",2I" + a + ",2W" + a;
    second += ",1F" + a + ",1I" + c + ",3W" + d + ",1F" + b + ",1I" + d + ",1W" + c + ",3F" + a + ",3I" + a + ",1W" +
              d + ",3F" + b + ",3I" + b + ",3W" + a;
  }
  return first + ",2I7,2W7,0I6,0W6,0I7,0W7\n" + second + ",1I6,3W7,1I7,1W6,1W7\n";
}

} // namespace dtc::test
