// How the validator refuses a program.
#pragma once

#include "runtime/support/error.h"

#include <string>

namespace dtc {

[[noreturn]] inline void refuseProgram(const std::string &why) {
  throw Error(ExitCode::BadInput, "the program is inconsistent: " + why + "; compile it again");
}

} // namespace dtc
