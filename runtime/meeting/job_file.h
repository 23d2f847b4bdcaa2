// The file in which the processes of a job meet: how it is opened, by whom, and how what a dead job left is told from
// what a living one uses.
//
// A launcher's file is anonymous and inherited. Ranks that others started agree on a name instead, and names in a
// directory that all users share can be taken by anybody. So the name lies in a directory that belongs to this user and
// that no other may enter; the file is made new or is this user's own, is never followed through a link, and is not
// readable by others. Who opens, examines or removes it holds a lock on the directory meanwhile.
//
// Each rank holds a lock on its own byte of the file, which the system drops when the process ends for whatever reason.
// A file in which no byte is locked was left by processes that are gone: it is removed and made anew.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <string>

namespace dtc {

class JobFile : NotCopied {
public:
  /// Opens the file for a rank and takes its lock. A path under /proc is a launcher's; otherwise the directory is made
  /// where it is missing, and the file too.
  /// Throws Error (BadInput) when the directory or file is another user's, is open to others or is a link, and when
  /// another process holds the rank's lock.
  JobFile(std::string path, int rank);

  /// The directory of this user in `root`: dtc-UID, or dtc-UID.1 and so on, as anybody may take a name there first. The
  /// first one that is this user's, else the first that nobody has.
  static std::string directoryIn(const std::string &root);
  ~JobFile();

  int descriptor() const { return file; }
  /// Whether the process of a rank that has joined still runs.
  bool isLocked(int rank) const;
  /// Makes the file at least this large; with `allocate` its memory is there, so that no later store can fail.
  /// Throws Error (Runtime) naming the bytes needed and available.
  void grow(uint64_t bytes, bool allocate);
  /// Removes the name, if the file has one and it still is this file's.
  void removeName() const noexcept;

private:
  class Directory;
  void takeLock(int rank) const;
  void refuseIfTooLarge(uint64_t bytes) const;
  bool isNamed() const;

  std::string path;
  int file = -1;
};

} // namespace dtc
