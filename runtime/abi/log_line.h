// How a line to a person begins, whoever says it: the compiler, the launcher or a rank (docs/running.md).
#pragma once

#include "runtime/abi/escape.h"

#include <string>
#include <string_view>

namespace dtc {

inline constexpr std::string_view NewsPrefix = "dtc: ", WarningPrefix = "dtc: warning: ", ErrorPrefix = "dtc: error: ";

/// Writes the line to the standard error. Never fails: who has no reader still does his work.
inline void tellNews(std::string_view text) { tell(stderr, std::string(NewsPrefix).append(text) + "\n"); }
inline void tellWarning(std::string_view text) { tell(stderr, std::string(WarningPrefix).append(text) + "\n"); }
inline void tellError(std::string_view text) { tell(stderr, std::string(ErrorPrefix).append(text) + "\n"); }

} // namespace dtc
