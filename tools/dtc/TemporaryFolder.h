// A folder for a verb's intermediate files.
#pragma once

#include "runtime/support/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>

namespace dtc {

/// Removed with all that it holds when this is destroyed.
class TemporaryFolder {
public:
  /// In TMPDIR, its name begins with `stem`. Throws Error (Runtime) where it cannot be created.
  explicit TemporaryFolder(const char *stem) : TemporaryFolder(stem, std::filesystem::temp_directory_path()) {}
  /// In `parent`.
  TemporaryFolder(const char *stem, const std::filesystem::path &parent) {
    std::string pattern = parent / fmt::format("{}-XXXXXX", stem);
    if (!mkdtemp(pattern.data()))
      throw Error(fmt::format("cannot make a folder in {}: {}; set TMPDIR to where there is room", parent.string(),
                              std::strerror(errno)));
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string at(const std::string &name) const { return path / name; }

private:
  std::filesystem::path path;
};

} // namespace dtc
