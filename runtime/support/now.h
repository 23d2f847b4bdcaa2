// The clock of what is measured.
#pragma once

#include <chrono>
#include <cstdint>

namespace dtc {

/// In nanoseconds, from some point on; never goes back.
inline int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

} // namespace dtc
