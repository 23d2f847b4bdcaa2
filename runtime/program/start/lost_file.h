// Mapped files that are truncated while they are read: the system sends a signal that does not name the file.
#pragma once

#include <functional>
#include <string>

namespace dtc {

/// From now on a read beyond the end of a file that was mapped, and one at which its disk fails, calls `end` with what
/// to tell the user, which names the file. `end` does not return.
void catchLostFiles(std::function<void(const std::string &words)> end);

} // namespace dtc
