// The beginning of lines for people, the same for the compiler, the launcher and ranks (docs/running.md).
#pragma once

#include "runtime/support/escape.h"
#include "runtime/support/time_text.h"

#include <string>
#include <string_view>

namespace dtc {

inline constexpr std::string_view NewsPrefix = "dtc: ", WarningPrefix = "dtc: warning: ", ErrorPrefix = "dtc: error: ";

/// Writes the line to the standard error. Never fails: a process without a reader still does its work.
inline void tellLine(std::string_view prefix, std::string_view text) {
  tell(stderr, std::string(prefix).append(text) + "\n");
}
inline void tellNews(std::string_view text) { tellLine(NewsPrefix, text); }
inline void tellWarning(std::string_view text) { tellLine(WarningPrefix, text); }
inline void tellError(std::string_view text) { tellLine(ErrorPrefix, text); }

/// Likewise for a run, which may take days: in a log the line begins with the time.
inline void logNews(std::string_view text) { tellLine(timeStamp(stderr).append(NewsPrefix), text); }
inline void logWarning(std::string_view text) { tellLine(timeStamp(stderr).append(WarningPrefix), text); }
inline void logError(std::string_view text) { tellLine(timeStamp(stderr).append(ErrorPrefix), text); }

} // namespace dtc
