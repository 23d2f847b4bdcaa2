// Files that are read through memory and become shorter meanwhile: the system answers with a signal that names nothing.
#pragma once

#include <functional>
#include <string>

namespace dtc {

/// From now on a read beyond the end of a file that was mapped, and one at which its disk fails, calls `end` with what
/// to tell the user, which names the file. `end` does not return.
void catchLostFiles(std::function<void(const std::string &words)> end);

} // namespace dtc
