// Times that users give in seconds.
#pragma once

#include <chrono>
#include <cmath>

namespace dtc {

inline std::chrono::milliseconds fromSeconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

} // namespace dtc
