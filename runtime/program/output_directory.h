// The folder of a run's outputs. It is used by one job at a time and holds one run's results.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

/// Held by one process of a job for as long as the object lives, and no longer than the process does. A run that ends
/// before it has written anything leaves nothing: no lock, and no folder that was not there.
class OutputDirectory : NotCopied {
public:
  /// Creates the folder and locks it. Throws Error (BadInput) saying who holds it, and Error (Runtime) naming path and
  /// reason when it cannot be created or written.
  explicit OutputDirectory(const std::string &path);
  ~OutputDirectory();

  /// Refuses to mix two runs: throws Error (BadInput) when there are results already. With `resumed`, results of the
  /// run of this checkpoint are accepted, but later checkpoints are not, unless they were `passedOver` because they are
  /// damaged.
  void requireFor(const std::string &resumed, bool passedOver) const;

  /// A number that identifies a folder held by some process, from the contents of its lock. 0 if this process sees no
  /// lock.
  static uint64_t identityOf(const std::string &path);

private:
  void makeFolders(bool isLast);
  void acquire(bool isLast);
  bool isCurrent() const;
  void sign() const;
  void release();

  std::string path, name;               // of the lock
  std::vector<std::string> madeFolders; // by us, the innermost first
  int lock = -1;
  bool held = false;
};

} // namespace dtc
