// A file that takes its final name when it is complete, and otherwise leaves nothing behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

class AtomicFile {
public:
  /// Writes beside `path` under a name of its own until publish(); what is at `path` stays as it is until then. Throws
  /// Error (Usage) when there is something at `path` that is no regular file: a device, a pipe or a directory is never
  /// replaced. All other errors are Error (Runtime) naming path and reason.
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
  [[noreturn]] void fail() const;

  std::string path, temporary;
  int file = -1;
  uint64_t written = 0;
};

/// The check alone, to be made before long work whose result goes to `path`.
void requireReplaceable(const std::string &path);

} // namespace dtc
