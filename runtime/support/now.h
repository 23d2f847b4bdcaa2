// The clock for measurements.
#pragma once

#include <chrono>
#include <cstdint>

namespace dtc {

/// Nanoseconds since an arbitrary point; never goes back.
inline int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

} // namespace dtc
