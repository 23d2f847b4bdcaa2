// Standard input, output and error, when whoever started us has closed one (`>&-`).
#pragma once

#include <fcntl.h>

namespace dtc {

/// Call it first in main. The next file opened would take the number of a closed one, and what is printed would end up
/// in it: in a lock, a program, other ranks' memory. So /dev/null is opened in such a place, the wrong way round, for
/// uses to fail as they would have.
inline void reserveStandardFiles() {
  for (int number : {0, 1, 2})
    if (fcntl(number, F_GETFD) < 0)
      static_cast<void>(open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY));
}

} // namespace dtc
