// The file in which the processes of a job meet: how it is opened, by whom, and how to tell a dead job's file from a
// running job's.
//
// A launcher's file is anonymous and inherited. Ranks that others started agree on a name instead, but anybody can take
// a name in a directory that all users share. So the name is in a directory that belongs to this user and that no other
// user may enter. The file is newly created or belongs to this user, is never opened through a link, and is not
// readable by others. Opening, examining or removing it requires a lock on the directory.
//
// Each rank holds a lock on its own byte of the file, which the system releases when the process ends for any reason. A
// file without a locked byte was left by dead processes: it is removed and created again.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <string>

namespace dtc {

class JobFile : NotCopied {
public:
  /// Opens the file for a rank and takes its lock. A path under /proc is a launcher's; otherwise the directory and the
  /// file are created if they are missing. Throws Error (BadInput) when the directory or file is another user's, is
  /// open to others or is a link, and when another process holds the rank's lock.
  JobFile(std::string path, int rank);

  /// This user's directory in `root`: dtc-UID, or dtc-UID.1 and so on, because others may have taken the name. Returns
  /// the first that belongs to this user, else the first free one.
  static std::string directoryIn(const std::string &root);
  ~JobFile();

  int descriptor() const { return file; }
  /// Whether the process of a rank that has joined is still running.
  bool isLocked(int rank) const;
  /// Makes the file at least this large; with `allocate` its memory is allocated, so that no later store can fail.
  /// Throws Error (Runtime) naming the bytes needed and available.
  void grow(uint64_t bytes, bool allocate);
  /// Removes the file's name, if it has one and the name still refers to this file.
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
