// Standard input, output and error, if the parent has closed one (`>&-`) or its disk is full.
#pragma once

#include "runtime/support/error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>

namespace dtc {

/// Call it first in main. The next file opened would take the number of a closed one, and printed text would end up in
/// it: in a lock, a program, other ranks' memory. So this opens /dev/null there, with the wrong access mode, so that
/// uses fail as they would have.
inline void reserveStandardFiles() {
  for (int number : {0, 1, 2})
    if (fcntl(number, F_GETFD) < 0)
      static_cast<void>(open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY));
}

inline Error cannotPrint(int number) {
  return Error(std::string("cannot write to the standard output: ") + std::strerror(number));
}

/// Throws Error (Runtime) unless all output has been written: exit code 0 promises a complete answer.
inline void requirePrinted() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw cannotPrint(errno);
}

} // namespace dtc
