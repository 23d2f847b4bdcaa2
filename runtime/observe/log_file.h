// A text file that grows by a line a step while a run goes on. Nothing that is trained may be lost because of it, and
// nothing that it lacks may go unnoticed.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc {

class LogFile : NotCopied {
public:
  /// Tries the file and changes nothing: one that was not there is gone again unless begin() follows. Throws Error
  /// naming path and reason when it cannot be written; a pipe that nobody reads is such a case.
  explicit LogFile(const std::string &path);
  ~LogFile();

  /// From now on the file is this run's: `append` to what is there, else replace it.
  void begin(bool append);
  /// The same, keeping of what is there the lines up to a step, whose number is the first in each line.
  void goOnAfter(int64_t step);

  /// Adds a step's line, with its newline; it is the file's when the call returns. Where that fails, as on a full disk,
  /// the file keeps whole lines, and what it lacks is kept, up to 16 MB, and tried again with the next line. Returns
  /// what to tell the user: something when writing begins to fail, when nothing is lacking any more, and when the file
  /// was removed or renamed, which is then made again; else nothing.
  [[nodiscard]] std::string append(int64_t step, std::string_view line);

  /// Throws Error (Runtime) naming path, reason and first step when anything is lacking.
  void close();

private:
  int openAgain();
  int flush();

  std::string path;
  int file = -1;
  std::string created;      // by us, where links lead; for as long as nothing has begun
  std::string lacking;      // lines that are not in the file
  int problem = 0;          // errno, while there are such lines
  int64_t lackingSince = 0; // the step of the first
  bool dropped = false;     // too many to keep
  bool replaced = false;    // since what was told last
};

} // namespace dtc
