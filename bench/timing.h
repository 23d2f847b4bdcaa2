// How the measurements between ranks are timed.
#pragma once

#include "runtime/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace dtc {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// The slowest rank's time for `work`, which all begin together.
template <typename Work> double timeOf(Communicator &communicator, const Work &work) {
  communicator.barrier();
  double begin = seconds();
  work();
  std::vector<int64_t> times = communicator.exchange(static_cast<int64_t>((seconds() - begin) * 1e9));
  return static_cast<double>(*std::max_element(times.begin(), times.end())) * 1e-9;
}

} // namespace dtc
