// A folder for what a verb makes on its way.
#pragma once

#include "runtime/abi/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>

namespace dtc {

/// Goes with all that is in it.
class TemporaryFolder {
public:
  /// In TMPDIR, its name begins with `stem`. Throws Error (Runtime) where it cannot be made.
  explicit TemporaryFolder(const char *stem) {
    namespace fs = std::filesystem;
    std::string pattern = fs::temp_directory_path() / fmt::format("{}-XXXXXX", stem);
    if (!mkdtemp(pattern.data()))
      throw Error(fmt::format("cannot make a folder in {}: {}; set TMPDIR to where there is room",
                              fs::temp_directory_path().string(), std::strerror(errno)));
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string at(const char *name) const { return path / name; }

private:
  std::filesystem::path path;
};

} // namespace dtc
