// A file that takes its final name when it is complete, and otherwise leaves nothing behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

class AtomicFile {
public:
  /// Writes beside `path` under a name of its own until publish(); what is at `path` stays as it is until then. Where
  /// `path` is a link, that is beside the file it leads to, and the link stays; another user's link is refused. Throws
  /// Error (Runtime) naming path and reason, as all functions do; also when there is something at `path` that is no
  /// regular file: a device, a pipe or a directory is never replaced.
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void append(std::string_view bytes);
  /// Replaces bytes that were appended.
  void overwrite(uint64_t offset, std::string_view bytes);
  /// Gives the file its name, and the rights of `mode` that the process's mask leaves.
  void publish(unsigned mode);

private:
  std::string path, target, temporary; // target: where links lead
  int file = -1;
  uint64_t written = 0;
};

/// Tries it, to be done before long work whose result goes to `path`. Nothing is changed there.
void requireWritable(const std::string &path);

} // namespace dtc
