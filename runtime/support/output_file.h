// How the runtime writes files, so that a reader finds a whole file or none. All errors are Error (Runtime) naming
// path, reason and what to do.
//
// A single file is an AtomicFile. Files that belong together are written into an unfinished folder, as OutputFiles and
// by writeFile; publishDirectory then brings the folder to disk and gives it its final name.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace dtc {

/// A file of which several processes, maybe of several hosts, each write parts. It is never mapped: hosts that share a
/// folder do not share memory.
class OutputFile : NotCopied {
public:
  /// Makes the file where it is not there yet; what is in it stays.
  explicit OutputFile(const std::string &path);
  /// Takes over a file that is open, which messages call `path`. Where `descriptor` is negative, errno says why.
  OutputFile(const std::string &path, int descriptor);
  ~OutputFile();

  /// Gives it its size and reserves all space on disk, where the file system can.
  void reserve(uint64_t size);
  void write(uint64_t offset, std::span<const std::byte> bytes);
  /// Gives it the rights of `mode` that the process's mask leaves.
  void allow(unsigned mode);
  /// Leaves it to the system when the bytes come to disk.
  void close();
  /// Brings what this process wrote to disk and closes.
  void finish();

private:
  std::string path;
  int descriptor;
};

/// A file that takes its final name when it is complete, and otherwise leaves nothing behind.
class AtomicFile : NotCopied {
public:
  /// Writes beside `path` under a name of its own until publish(); what is at `path` stays as it is until then. Where
  /// `path` is a link, that is beside the file it leads to, and the link stays; another user's link is refused. Throws
  /// also when there is something at `path` that is no regular file: a device, a pipe or a directory is never replaced.
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();

  void append(std::string_view bytes);
  /// Replaces bytes that were appended.
  void overwrite(uint64_t offset, std::string_view bytes);
  /// Gives the file its name, and the rights of `mode` that the process's mask leaves. It may reach the disk later.
  void publish(unsigned mode);

private:
  void removeTemporary();

  std::string path, target; // target: where links lead
  std::string temporary;    // empty when it is gone
  OutputFile file;
  uint64_t written = 0;
};

/// Tries it, to be done before long work whose result goes to `path`. Nothing is changed there.
void requireWritable(const std::string &path);

/// Writes a text in place.
void writeFile(const std::filesystem::path &path, std::string_view text);
void createDirectories(const std::filesystem::path &path);
/// The folder alone, not those that it lies in; it may be there.
void createDirectory(const std::filesystem::path &path);

/// Brings a folder and its files to disk, then renames it to `final`; what was there under that name is replaced in the
/// same instant and removed; on file systems that cannot exchange two names it is removed first.
void publishDirectory(const std::filesystem::path &unfinished, const std::filesystem::path &final);

} // namespace dtc
