// close(2) that fails when a test says so: a file server may report a full disk as late as this. For one source file of
// an executable.
#pragma once

#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

namespace dtc::test {

/// The errno with which files are closed from now on, or 0.
inline int closeProblem = 0;

} // namespace dtc::test

/// Replaces the C library's.
extern "C" int close(int descriptor) {
  int result = static_cast<int>(syscall(SYS_close, descriptor));
  if (dtc::test::closeProblem == 0)
    return result;
  errno = dtc::test::closeProblem;
  return -1;
}
