// Messages for when the system refuses something because a limit is reached: a problem of the machine, not of the
// input.
#pragma once

#include "runtime/support/error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace dtc {

/// What to do, after "; "; empty for an errno that is not about a limit.
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

/// `code`, or Runtime if `number` is about a limit.
inline ExitCode exitCodeOf(int number, ExitCode code) { return limitRemedy(number).empty() ? code : ExitCode::Runtime; }

/// An exception's message; for one that the standard library throws for an errno, for example from a thread, with what
/// to do.
inline std::string wordsOf(const std::exception &error) {
  const auto *system = dynamic_cast<const std::system_error *>(&error);
  bool hasNumber = system && (system->code().category() == std::generic_category() ||
                              system->code().category() == std::system_category());
  return error.what() + (hasNumber ? limitRemedy(system->code().value()) : "");
}

} // namespace dtc
