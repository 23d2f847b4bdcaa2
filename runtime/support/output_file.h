// Writes files so that a reader finds a complete file or none. All errors are Error (Runtime) naming path, reason and
// what to do.
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
  /// Creates the file if it does not exist; keeps its contents.
  explicit OutputFile(const std::string &path);
  /// Takes over an open file, which messages call `path`. If `descriptor` is negative, errno says why.
  OutputFile(const std::string &path, int descriptor);
  ~OutputFile();

  /// Sets its size and reserves all space on disk, if the file system can.
  void reserve(uint64_t size);
  void write(uint64_t offset, std::span<const std::byte> bytes);
  /// Sets the permissions of `mode` that the process's umask allows.
  void allow(unsigned mode);
  /// Closes the file; the system decides when the bytes reach the disk.
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
  /// Writes to a temporary file next to `path` until publish(); until then `path` is unchanged. If `path` is a link,
  /// the temporary file is next to the link's target, and the link stays; another user's link is refused. Also throws
  /// if `path` is not a regular file: a device, a pipe or a directory is never replaced.
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();

  void append(std::string_view bytes);
  /// Replaces bytes that were appended.
  void overwrite(uint64_t offset, std::string_view bytes);
  /// Gives the file its name, and the permissions of `mode` that the process's umask allows. It may reach the disk
  /// later.
  void publish(unsigned mode);

private:
  void removeTemporary();

  std::string path, target; // target: where links lead
  std::string temporary;    // empty when it is gone
  OutputFile file;
  uint64_t written = 0;
};

/// Checks that `path` can be written, before long work whose result goes there. Changes nothing.
void requireWritable(const std::string &path);

/// Writes a text in place.
void writeFile(const std::filesystem::path &path, std::string_view text);
void createDirectories(const std::filesystem::path &path);
/// Creates the folder, but not its parents; it may exist already.
void createDirectory(const std::filesystem::path &path);

/// Brings a folder and its files to disk, then renames it to `final`; an existing folder of that name is replaced
/// atomically and removed; on file systems that cannot exchange two names it is removed first.
void publishDirectory(const std::filesystem::path &unfinished, const std::filesystem::path &final);

} // namespace dtc
