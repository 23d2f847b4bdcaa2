// Files that are written as a whole, safely: space first, then bytes, then to disk. All errors are Error (Runtime)
// naming path and reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

/// A file of which several processes, maybe of several hosts, each write parts. It is never mapped: hosts that share a
/// folder do not share memory.
class OutputFile {
public:
  /// Makes the file where it is not there yet; what is in it stays.
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Gives it its size and reserves all space on disk, where the file system can.
  void reserve(uint64_t size);
  void write(uint64_t offset, std::span<const std::byte> bytes);
  /// Brings what this process wrote to disk and closes.
  void finish();

private:
  std::string path;
  int descriptor;
};

void writeFile(const std::filesystem::path &path, std::string_view text);
void createDirectories(const std::filesystem::path &path);
/// The folder alone, not those that it lies in; it may be there.
void createDirectory(const std::filesystem::path &path);

/// Brings a folder and its files to disk, then renames it to `final`; what was there under that name is replaced in the
/// same instant and removed; on file systems that cannot exchange two names it is removed first.
void publishDirectory(const std::filesystem::path &unfinished, const std::filesystem::path &final);

} // namespace dtc
