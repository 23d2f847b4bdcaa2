// Files that are written as a whole, safely: space first, then bytes, then to disk. All errors are Error (Runtime)
// naming path and reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

/// A file of fixed size, mapped for writing.
class OutputFile {
public:
  /// Makes the file and reserves all its space on disk, so that writing the mapping cannot run out of it.
  static OutputFile create(const std::string &path, uint64_t size);
  /// Maps an existing file of at least one byte.
  static OutputFile open(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  std::span<std::byte> bytes() const { return content; }
  /// Gives back this process's memory of what was written so far: it goes on to the disk without it.
  void release() const;

private:
  OutputFile(const std::string &path, int descriptor, uint64_t size);
  std::span<std::byte> content;
};

void writeFile(const std::filesystem::path &path, std::string_view text);
void createDirectories(const std::filesystem::path &path);

/// Brings a folder and its files to disk, then renames it to `final`; what was there under that name is replaced in the
/// same instant and removed.
void publishDirectory(const std::filesystem::path &unfinished, const std::filesystem::path &final);

} // namespace dtc
