#include "runtime/observe/log_file.h"

#include "runtime/support/write_error.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

// Non-blocking: a pipe without a reader is an error, not a reason to hang.
static constexpr int Mode = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;

LogFile::LogFile(const std::string &path) : path(path) {
  requireOwnLink(path);
  file = open(path.c_str(), Mode);
  if (file < 0 && errno == ENOENT) {
    file = open(path.c_str(), Mode | O_CREAT, 0644);
    std::error_code ignored;
    if (file >= 0)
      created = std::filesystem::canonical(path, ignored);
  }
  if (file < 0)
    throw cannotWrite(path, errno);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
}

LogFile::~LogFile() {
  if (file >= 0)
    ::close(file);
  if (!created.empty())
    unlink(created.c_str());
}

static bool isRegular(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

void LogFile::begin(bool append) {
  if (!append && isRegular(file) && ftruncate(file, 0) != 0)
    throw cannotWrite(path, errno);
  created.clear();
}

/// The first number in a line, which is its step.
static int64_t stepOf(const std::string &line) {
  size_t first = line.find_first_of("0123456789");
  return first == std::string::npos ? 0 : std::atoll(line.c_str() + first);
}

void LogFile::goOnAfter(int64_t step) {
  begin(/*append=*/true);
  if (!isRegular(file))
    return;
  std::ifstream lines(path);
  off_t kept = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof() && stepOf(line) <= step;)
    kept += static_cast<off_t>(line.size()) + 1;
  if (ftruncate(file, kept) != 0)
    throw cannotWrite(path, errno);
}

/// Reopens the file if its name now refers to another file or to none. Returns 0 or errno.
int LogFile::openAgain() {
  struct stat opened, named;
  if (fstat(file, &opened) != 0 || !S_ISREG(opened.st_mode))
    return 0;
  if (stat(path.c_str(), &named) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
    return 0;
  int another = open(path.c_str(), Mode | O_CREAT, 0644);
  if (another < 0)
    return errno;
  ::close(std::exchange(file, another));
  replaced = true;
  return 0;
}

/// Writes the missing lines; returns 0 or errno. Leaves a regular file with whole lines.
int LogFile::flush() {
  if (int number = openAgain())
    return number;
  off_t whole = isRegular(file) ? lseek(file, 0, SEEK_END) : -1;
  std::string_view left = lacking;
  while (!left.empty()) {
    ssize_t count = write(file, left.data(), left.size());
    if (count > 0) {
      left.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      int number = errno;
      bool isCut = whole >= 0 && ftruncate(file, whole) == 0;
      if (!isCut)
        lacking.erase(0, lacking.size() - left.size());
      return number;
    }
  }
  lacking.clear();
  return 0;
}

std::string LogFile::append(int64_t step, std::string_view line) {
  constexpr size_t Most = 16 << 20;
  bool wasFailing = problem != 0;
  if (lacking.size() + line.size() <= Most)
    lacking += line;
  else
    dropped = true;
  problem = flush();
  if (problem && !wasFailing) {
    lackingSince = step;
    return fmt::format("step {}: {}. Training goes on; the missing lines are kept and tried again with each step", step,
                       cannotWrite(path, problem).what());
  }
  if (std::exchange(replaced, false))
    return fmt::format("step {}: '{}' was removed or renamed; a new file has the lines from this step on", step,
                       escaped(path));
  if (!problem && wasFailing && !dropped)
    return fmt::format("step {}: '{}' can be written again, and nothing is missing from it", step, escaped(path));
  return "";
}

void LogFile::close() {
  if (file < 0)
    return;
  int number = lacking.empty() ? 0 : flush();
  // Some file systems report only now that there was no space.
  if (::close(std::exchange(file, -1)) != 0 && number == 0)
    number = errno;
  if (number == 0 && !dropped)
    return;
  std::string since = lackingSince ? fmt::format("; it lacks what belongs to step {} and later", lackingSince) : "";
  throw Error(cannotWrite(path, number ? number : ENOSPC).what() + since);
}

} // namespace dtc
