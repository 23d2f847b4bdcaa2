// A text file that grows by a line per step during a run. Its errors must not lose any training, and missing lines must
// not go unnoticed.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

class LogFile : NotCopied {
public:
  /// Checks that the file can be written, and changes nothing: a file that did not exist is removed again unless
  /// begin() follows. Throws Error naming path and reason when it cannot be written, for example a pipe without a
  /// reader.
  explicit LogFile(const std::string &path);
  ~LogFile();

  /// Makes the file this run's: `append` to its contents, else replace them.
  void begin(bool append);
  /// Likewise, but keeps the existing lines up to a step; the first number in each line is its step.
  void goOnAfter(int64_t step);

  /// Adds a step's line, with its newline; it is in the file when the call returns. If that fails, as on a full disk,
  /// the file keeps whole lines, and the missing lines are kept, up to 16 MB, and retried with the next line. Returns a
  /// message for the user when writing begins to fail, when no line is missing any more, and when the file was removed
  /// or renamed and has been created again; otherwise an empty string.
  [[nodiscard]] std::string append(int64_t step, std::string_view line);

  /// Throws Error (Runtime) naming path, reason and first step if any line is missing.
  void close();

private:
  int openAgain();
  int flush();

  std::string path;
  int file = -1;
  std::string created;      // the target path that we created, until begin() is called
  std::string lacking;      // lines that are not in the file
  int problem = 0;          // errno, while there are such lines
  int64_t lackingSince = 0; // the step of the first
  bool dropped = false;     // too many to keep
  bool replaced = false;    // since the last message
};

} // namespace dtc
