// The folder of a run's outputs: one job at a time, one run's results.
#pragma once

#include <string>

namespace dtc {

/// Held by one process of a job for as long as the object lives, and no longer than the process does.
class OutputDirectory {
public:
  /// Makes the folder and locks it. Throws Error (Usage) telling who holds it, and Error (Runtime) when it cannot be
  /// made or written.
  explicit OutputDirectory(const std::string &path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory &) = delete;
  OutputDirectory &operator=(const OutputDirectory &) = delete;

  /// Refuses to mix two runs: throws Error (Usage) when there are results already. With `resumed`, those of the run
  /// that this checkpoint belongs to are no hindrance, but later checkpoints than it are, unless they were `passedOver`
  /// because they are damaged.
  void requireFor(const std::string &resumed, bool passedOver) const;

private:
  std::string path;
  int lock;
};

} // namespace dtc
