// What `scripts/test --all` tests more of.
#pragma once

#include <cstdlib>

namespace dtc::test {

/// Whether tests may take minutes, and try all that there is.
inline bool testsMayBeLong() { return std::getenv("DTC_LONG_TESTS") != nullptr; }

} // namespace dtc::test
