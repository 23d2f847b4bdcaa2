// What is said where the system refuses something because there is too much of it already: that is the machine's
// matter, whatever was asked for.
#pragma once

#include "runtime/support/error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace dtc {

/// What to do, with "; " before it; empty for an errno that no limit gives.
inline std::string limitRemedy(int number) {
  switch (number) {
  case EAGAIN:
    return "; the limit of processes and threads is reached: raise it (ulimit -u, or the container's), or use fewer "
           "ranks or --threads";
  case EMFILE:
    return "; the limit of open files is reached: raise it (ulimit -n)";
  case ENFILE:
    return "; the machine's limit of open files is reached: close some, or raise it (sysctl fs.file-max)";
  case ENOMEM:
    return "; free some memory, or use fewer ranks or --threads";
  default:
    return "";
  }
}

/// `code`, or what a limit is instead.
inline ExitCode exitCodeOf(int number, ExitCode code) { return limitRemedy(number).empty() ? code : ExitCode::Runtime; }

/// An exception's words; of one that the standard library throws for an errno, as for a thread, with what to do.
inline std::string wordsOf(const std::exception &error) {
  const auto *system = dynamic_cast<const std::system_error *>(&error);
  bool hasNumber = system && (system->code().category() == std::generic_category() ||
                              system->code().category() == std::system_category());
  return error.what() + (hasNumber ? limitRemedy(system->code().value()) : "");
}

} // namespace dtc
